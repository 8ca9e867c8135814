// The tables of a payload: what is known of a model beside its matrices.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/flat.hpp"
#include "decode/generation_config.hpp"
#include "engine/media.hpp"
#include "text/chat.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::cut {

struct Tables {
  std::span<const float> constants;
  std::span<const std::int32_t> orders;
  std::optional<text::Tokenizer> tokenizer;  // a checkpoint may be without
  text::Template chat_template;
  decode::GenerationDefaults defaults;
  std::int32_t image_tokens = 0;             // the most of a picture
  engine::SoftIds soft_ids{};

  void put(FlatWriter& writer) const;
  static Tables take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper);
};

}  // namespace lapidary::cut
