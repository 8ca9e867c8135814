// Pictures and sounds in the parts of messages. They come in base 64; an address is never fetched.
#pragma once

#include <vector>

#include "serve/fields.hpp"

namespace lapidary::serve {

using MediaItems = std::vector<MediaItem>;

// One for each API's kind of part. Each adds to `items`, at most 32 of a request, and returns the part as text::render() takes it.
text::Value read_image_url(Fields& part, MediaItems& items);    // chat: {"image_url":{"url","detail"}}
text::Value read_input_audio(Fields& part, MediaItems& items);  // chat: {"input_audio":{"data","format"}}
text::Value read_input_image(Fields& part, MediaItems& items);  // responses: {"image_url","detail"}
text::Value read_image_block(Fields& block, MediaItems& items); // messages: {"source":{"type":"base64","media_type","data"}}

}  // namespace lapidary::serve
