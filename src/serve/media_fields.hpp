// Pictures and sounds in the parts of messages. They come in base 64, or lie at an address that may be fetched.
#pragma once

#include <vector>

#include "serve/fields.hpp"

namespace lapidary::serve {

struct MediaItems {
  std::vector<MediaItem>& items;  // at most 32
  const Fetcher* fetcher;         // null: an address is never fetched
};

// One for each API's kind of part. Each adds an item, and returns the part as text::render() takes it.
text::Value read_image_url(Fields& part, MediaItems& media);    // chat: {"image_url":{"url","detail"}}
text::Value read_input_audio(Fields& part, MediaItems& media);  // chat: {"input_audio":{"data","format"}}
text::Value read_input_image(Fields& part, MediaItems& media);  // responses: {"image_url","detail"}
text::Value read_image_block(Fields& block, MediaItems& media); // messages: {"source":{"type":"base64","media_type","data"}}, or {"type":"url","url"}

}  // namespace lapidary::serve
