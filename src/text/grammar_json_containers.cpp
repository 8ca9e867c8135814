// Arrays and objects.
#include <algorithm>
#include <iterator>

#include "text/chat_format.hpp"
#include "text/grammar_json.hpp"

namespace lapidary::text {

namespace {

// As the chat template prints fields: by lower-cased name, equal ones stay in order.
std::vector<PropertyRule> in_dictionary_order(const std::vector<PropertyRule>& properties) {
  std::vector<std::pair<std::string, const PropertyRule*>> keyed;
  for (const PropertyRule& property : properties) keyed.emplace_back(lower_case(property.name), &property);
  std::ranges::sort(keyed);
  std::vector<PropertyRule> sorted;
  for (const auto& [key, property] : keyed) sorted.push_back(*property);
  return sorted;
}

}  // namespace

void JsonRules::array(StateId at, const ArrayRule& rule) {
  std::optional<std::uint64_t> most = rule.most;
  if (!rule.rest) most = std::min<std::uint64_t>(most.value_or(rule.prefix.size()), rule.prefix.size());
  const std::uint64_t listed = most ? *most : std::max<std::uint64_t>(rule.prefix.size(), rule.least);

  const StateId open = out_.state(), inner = out_.state(), close = out_.state();
  out_.byte(at, '[', open);
  white_space(open, inner);
  if (rule.least == 0) out_.byte(inner, ']', end_);
  out_.byte(close, ']', end_);

  StateId before = inner;
  for (std::uint64_t i = 0; i < listed; ++i) {
    const StateId after = out_.state();
    out_.call(before, i < rule.prefix.size() ? rule.prefix[i] : *rule.rest, after, 1);
    if (i + 1 >= rule.least) white_space(after, close);
    if (most && i + 1 == listed) return;
    const StateId comma = out_.state();
    out_.byte(after, ',', comma);
    before = out_.state();
    white_space(comma, before);
  }
  if (most) return;
  const StateId again = out_.state(), after = out_.state(), comma = out_.state();
  out_.empty(before, again);
  out_.call(again, *rule.rest, after, 1);
  white_space(after, close);
  out_.byte(after, ',', comma);
  white_space(comma, again);
}

void JsonRules::object(StateId at, const ObjectRule& rule) {
  const std::vector<PropertyRule> properties =
      notation_ == Notation::json ? rule.properties : in_dictionary_order(rule.properties);
  const std::size_t count = properties.size();
  std::vector<std::size_t> next_required(count + 1, count);  // from a property on; `count`: none, the object may end
  for (std::size_t i = count; i-- > 0;) next_required[i] = properties[i].required ? i : next_required[i + 1];
  const auto may_end = [&](std::size_t i) { return next_required[i] == count; };

  const StateId open = out_.state(), inner = out_.state(), close = out_.state();
  out_.byte(at, '{', open);
  white_space(open, inner);
  if (may_end(0)) out_.byte(inner, '}', end_);
  out_.byte(close, '}', end_);

  // Before a property none of whose predecessors can come any more, and after the value of the one before it.
  std::vector<StateId> before, after;
  for (std::size_t i = 0; i <= count; ++i) {
    before.push_back(out_.state());
    after.push_back(out_.state());
    if (i < count || rule.extra) {
      const StateId comma = out_.text(after[i], ",");
      white_space(comma, before[i]);
    }
    if (may_end(i)) white_space(after[i], close);
  }
  out_.empty(inner, before[0]);

  Words keys;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back(properties[i].name);
    keys.texts.push_back(notation_ == Notation::json ? to_json(names[i]) : names[i]);
    keys.ends.push_back(out_.state());
    value_after_colon(keys.ends[i], properties[i].value, after[i + 1]);
  }
  prepare(keys);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::uint32_t> choice;
    std::ranges::copy_if(keys.ascending, std::back_inserter(choice),
                         [&](std::uint32_t k) { return k >= i && k <= next_required[i]; });
    one_of(before[i], keys, std::move(choice));
  }
  if (!rule.extra) return;
  const StateId extra = out_.state(), key_end = out_.state();
  for (std::size_t i = 0; i <= count; ++i) {
    if (may_end(i)) out_.empty(before[i], extra);
  }
  extra_key(extra, names, key_end);
  value_after_colon(key_end, *rule.extra, after[count]);
}

void JsonRules::value_after_colon(StateId from, StateId value, StateId to) {
  const StateId colon = out_.text(from, ":");
  const StateId before = out_.state();
  out_.empty(colon, before);
  if (notation_ == Notation::json) out_.byte(colon, ' ', before);
  out_.call(before, value, to, 1);
}

}  // namespace lapidary::text
