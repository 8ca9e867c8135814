// Bytes as letters: how pictures and sounds travel in JSON.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lapidary::text {

std::string to_base64(std::string_view bytes);
// Nothing for what no encoder writes: other letters, spaces, an end that is not padded, bits behind the last byte.
std::optional<std::string> from_base64(std::string_view letters);

// What an address of the form data:TYPE;base64,LETTERS holds; nothing for any other. The type may be any: bytes say themselves what they are.
std::optional<std::string> read_data_url(std::string_view url);

}  // namespace lapidary::text
