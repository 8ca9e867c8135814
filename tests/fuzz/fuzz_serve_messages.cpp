// Any bytes as a body of /v1/responses and /v1/messages: a Refusal that can be told, or a job and a writer that tells an answer.
#include <cstdint>
#include <cstdlib>

#include "serve/translation.hpp"

namespace {

using namespace lapidary::serve;

template <class Read>
void read_and_tell(Read read, const lapidary::text::Value& body) {
  try {
    const Request request = read(body, fixed_facts());
    if (told(*request.writer).empty()) std::abort();
  } catch (const Refusal& refusal) {
    if (openai_error(refusal).size() >= 2000 || anthropic_error(refusal, "req_1").size() >= 2000) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const lapidary::text::Value body = parse_body(std::string_view(reinterpret_cast<const char*>(data), size));
    read_and_tell(read_response, body);
    read_and_tell(read_message, body);
    read_count_tokens(body, fixed_facts());
  } catch (const Refusal&) {
  }
  return 0;
}
