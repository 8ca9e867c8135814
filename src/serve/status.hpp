// What a server says of itself: /v1/models, /props, /slots.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/model.hpp"
#include "serve/api.hpp"
#include "serve/server_options.hpp"
#include "serve/streams.hpp"

namespace lapidary::serve {

std::string models_body(const Facts& facts, std::int64_t created_s);
// Refuses a name that the model does not have.
std::string model_body(const Facts& facts, std::string_view name, std::int64_t created_s);
std::string props_body(const engine::Model& model, const Facts& facts, const ServerOptions& options, std::string_view version);
std::string slots_body(const std::vector<SlotStatus>& slots, int context_tokens);
// Equal ones promise equal bytes.
std::string fingerprint_of(const engine::Model& model, std::string_view version);

}  // namespace lapidary::serve
