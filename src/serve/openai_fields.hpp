// Fields that chat completions and completions have alike.
#pragma once

#include "serve/openai_writer.hpp"
#include "serve/shared_fields.hpp"

namespace lapidary::serve {

// stream, stream_options.
void read_stream(Fields& body, AnswerShape& shape);
// What both have of a job: model, sampling, stop, n, prediction, cache_salt. Fields without effect are looked at, others refused.
void read_common(Fields& body, const Facts& facts, Job& job);

}  // namespace lapidary::serve
