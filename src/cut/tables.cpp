#include "cut/tables.hpp"

#include <array>

namespace lapidary::cut {

void Tables::put(FlatWriter& writer) const {
  writer.put(constants);
  writer.put(orders);
  const std::uint8_t has_tokenizer = tokenizer.has_value();
  writer.put(std::span(&has_tokenizer, 1));
  if (tokenizer) tokenizer->put(writer);
  const std::array numbers{defaults.temperature, defaults.top_p, defaults.min_p, defaults.repetition_penalty};
  const std::array choices{defaults.top_k, static_cast<std::int32_t>(chat_template.family),
                           static_cast<std::int32_t>(chat_template.revision), image_tokens,
                           soft_ids.image, soft_ids.audio, soft_ids.video};
  writer.put(std::span<const float>(numbers));
  writer.put(std::span<const std::int32_t>(choices));
  writer.put(std::span<const std::int32_t>(defaults.suppress_tokens));
  writer.put(std::span<const std::int32_t>(defaults.eos_tokens));
}

Tables Tables::take(FlatReader& reader, const std::string& where, std::shared_ptr<const void> keeper) {
  std::span<const float> constants, numbers;
  std::span<const std::int32_t> orders, choices, suppress, eos;
  reader.take(constants);
  reader.take(orders);
  std::span<const std::uint8_t> has_tokenizer;
  reader.take(has_tokenizer);
  if (has_tokenizer.size() != 1) fail(ErrorKind::bad_value, where, "tokenizer, expected one or none, got neither");
  std::optional<text::Tokenizer> tokenizer;
  if (has_tokenizer[0]) tokenizer = text::Tokenizer::take(reader, where, std::move(keeper));
  reader.take(numbers);
  reader.take(choices);
  reader.take(suppress);
  reader.take(eos);
  if (numbers.size() != 4 || choices.size() != 7) fail(ErrorKind::bad_value, where, "defaults, expected 4 numbers and 7 choices, got others");
  return {.constants = constants, .orders = orders, .tokenizer = std::move(tokenizer),
          .chat_template = {static_cast<text::Family>(choices[1]), static_cast<text::Revision>(choices[2])},
          .defaults = {.temperature = numbers[0], .top_k = choices[0], .top_p = numbers[1], .min_p = numbers[2],
                       .repetition_penalty = numbers[3], .suppress_tokens = {suppress.begin(), suppress.end()},
                       .eos_tokens = {eos.begin(), eos.end()}},
          .image_tokens = choices[3],
          .soft_ids = {choices[4], choices[5], choices[6]}};
}

}  // namespace lapidary::cut
