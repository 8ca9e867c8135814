// What an answer says of itself: which ids its text came from, what ended it, how much was thought and drafted.
#include <boost/ut.hpp>

#include <algorithm>
#include <numeric>

#include "engine/pebble.hpp"
#include "support/random.hpp"
#include "text/whitespace.hpp"

namespace lapidary::test::delivery_test {
namespace {

using namespace boost::ut;
using engine::Ending;
using engine::Reader;
using engine::Reading;

const text::Tokenizer& tokenizer() {
  static const text::Tokenizer pebble = text::Tokenizer::open(kRoot + "/models/pebble");
  return pebble;
}

struct Delivered {
  std::string content;
  std::vector<std::string> contents;          // by event, where there is some
  std::vector<std::vector<int>> tokens;       // likewise
  std::vector<int> all;
  int reasoning_tokens = 0;
};

Delivered delivered(std::span<const std::int32_t> ids, Reading reading = Reading::answer, const std::vector<std::string>& stops = {}) {
  Reader reader(tokenizer(), reading, stops);
  Delivered whole;
  const auto take = [&](const engine::Event& event) {
    expect(event.content_tokens.empty() || !event.content.empty());
    if (event.content.empty()) return;
    whole.content += event.content;
    whole.contents.push_back(event.content);
    whole.tokens.push_back(event.content_tokens);
    whole.all.insert(whole.all.end(), event.content_tokens.begin(), event.content_tokens.end());
  };
  for (const std::int32_t id : ids) {
    take(reader.push(id));
    if (reader.stopped()) break;
  }
  take(reader.finish(false));
  whole.reasoning_tokens = reader.reasoning_tokens();
  return whole;
}

Delivered delivered(std::string_view text, Reading reading = Reading::answer, const std::vector<std::string>& stops = {}) {
  return delivered(tokenizer().encode(text), reading, stops);
}

std::string text_of(std::span<const std::int32_t> ids, std::span<const int> numbers) {
  std::string text;
  for (const int number : numbers) text += tokenizer().bytes(ids[static_cast<std::size_t>(number)]);
  return text;
}

const suite<"delivery"> delivery = [] {
  "ids come with their text and once, those of markers, thoughts and calls never"_test = [] {
    const std::string output = "<|channel>thought\nhm, so <channel|>The answer: 42. <|tool_call>call:f{}<tool_call|>And more";
    const auto ids = tokenizer().encode(output);
    const Delivered whole = delivered(ids);
    expect(whole.content == "The answer: 42. And more") << whole.content;
    expect(text_of(ids, whole.all) == whole.content) << text_of(ids, whole.all);
    expect(whole.contents.size() == whole.tokens.size() && std::ranges::is_sorted(whole.all));
    expect(whole.reasoning_tokens == static_cast<int>(std::ranges::find(ids, *tokenizer().special("<channel|>")) - ids.begin()) + 1);
  };

  "a thought of the prompt counts up to its close, a call in a thought does not"_test = [] {
    const auto size = [](std::string_view text) { return static_cast<int>(tokenizer().encode(text).size()); };
    expect(delivered("hm\n<channel|>so", Reading::answer_in_thought).reasoning_tokens == size("hm\n<channel|>"));
    expect(delivered("hm<|tool_call>call:f{}<tool_call|>", Reading::answer_in_thought).reasoning_tokens == size("hm"));
    expect(delivered("<|channel>thought\nhm", Reading::answer).reasoning_tokens == size("<|channel>thought\nhm"));
    expect(delivered("<|channel>thought\nhm", Reading::plain).reasoning_tokens == 0_i);
  };

  "a character of several ids brings them all, also one that is broken"_test = [] {
    const auto llama = tokenizer().encode("\U0001f999");
    expect(fatal(llama.size() == 4u));
    const Delivered whole = delivered(llama, Reading::plain);
    expect(whole.all == std::vector{0, 1, 2, 3} && whole.contents.size() == 1u);
    std::vector<std::int32_t> broken{llama[0], llama[1], llama[2], tokenizer().encode("\n")[0]};
    const Delivered replaced = delivered(broken);
    expect(replaced.content == "\ufffd" && replaced.all == std::vector{0, 1, 2}) << "the white space behind it is stripped";
    broken.push_back(tokenizer().encode("x")[0]);
    expect(delivered(broken).all == std::vector{0, 1, 2, 3, 4});
  };

  "white space brings its ids when it is delivered, and none where it is stripped"_test = [] {
    const auto ids = tokenizer().encode("\n\nOne\n\ntwo\n\n");
    const Delivered whole = delivered(ids);
    expect(whole.content == "One\n\ntwo" && text_of(ids, whole.all) == "One\n\ntwo");
    expect(whole.contents.back().starts_with("\n\n") && whole.tokens.back().size() > 1u);
    const Delivered goes_on = delivered("\n\nOne", Reading::answer_in_text);
    expect(goes_on.content == "\n\nOne" && goes_on.all.front() == 0) << "text stands before it";
  };

  "text held back for a stop brings its ids later, text cut off never"_test = [] {
    const auto ids = tokenizer().encode("a STOX and STOP b");
    const Delivered whole = delivered(ids, Reading::answer, {"STOP"});
    expect(whole.content == "a STOX and ") << whole.content;
    const std::string listed = text_of(ids, whole.all);
    expect(listed.starts_with(whole.content) && listed.size() < whole.content.size() + 5) << listed;
  };

  "any ids: events list each id with text in the content once, in order"_test = [] {
    Random random(7);
    const std::int32_t specials = 24;
    for (int round = 0; round < 400; ++round) {
      std::vector<std::int32_t> ids;
      for (int i = random.below(60); i > 0; --i)
        ids.push_back(random.chance(4) ? random.below(specials) : random.chance(3) ? 24 + random.below(270) : random.below(tokenizer().size()));
      const Reading reading = static_cast<Reading>(random.below(4));
      const Delivered whole = delivered(ids, reading, random.chance(2) ? std::vector<std::string>{"e", "\n"} : std::vector<std::string>{});
      expect(std::ranges::adjacent_find(whole.all, std::greater_equal{}) == whole.all.end());
      std::size_t bytes = 0;
      for (const int number : whole.all) {
        expect(fatal(number >= 0 && number < static_cast<int>(ids.size())));
        expect(tokenizer().kind(ids[static_cast<std::size_t>(number)]) != text::PieceKind::special);
        bytes += std::max<std::size_t>(tokenizer().bytes(ids[static_cast<std::size_t>(number)]).size(), 3);  // of a replacement
      }
      expect(bytes >= whole.content.size());
    }
  };

  "any ids of whole characters: those listed are the content, but for white space at its ends"_test = [] {
    Random random(8);
    const std::int32_t specials = 24;
    int contents = 0;
    for (int round = 0; round < 400; ++round) {
      std::vector<std::int32_t> ids;
      for (int i = random.below(40); i > 0; --i) {
        const std::int32_t id = random.chance(6) ? random.below(specials) : random.chance(3) ? 24 + random.below(2) : random.below(tokenizer().size());
        if (tokenizer().kind(id) != text::PieceKind::byte) ids.push_back(id);
      }
      const Delivered whole = delivered(ids, random.chance(4) ? Reading::answer_in_thought : Reading::answer);
      expect(text::strip(text_of(ids, whole.all)) == whole.content) << whole.content;
      const auto is_blank = [&](int number) { return text::strip(tokenizer().bytes(ids[static_cast<std::size_t>(number)])).empty(); };
      expect(whole.all.empty() || (!is_blank(whole.all.front()) && !is_blank(whole.all.back())));
      contents += !whole.all.empty();
    }
    expect(contents > 100_i);
  };

  "the events of an answer list what its content is made of, with drafts too"_test = [] {
    engine::Model model(pebble_options());
    engine::AnswerOptions options;
    options.sampling.temperature = 1.0f;
    options.sampling.seed = 4;
    options.max_tokens = 50;
    options.logprobs = 0;
    for (const int drafts : {0, 5}) {
      engine::Conversation conversation(model);
      conversation.drafts = decode::DraftChoice{.sources = {true, true}, .fixed_k = drafts};
      engine::Answer answer(conversation, asked(model, "Tell me a story."), options);
      std::string listed;
      while (const auto event = answer.turn()) listed += text_of(answer.result().ids, event->content_tokens);
      expect(text::strip(listed) == answer.result().content) << listed;
    }
  };

  "the stop text that ended it is named"_test = [] {
    engine::Model model(pebble_options());
    engine::AnswerOptions options;
    options.sampling.temperature = 0.0f;
    const auto prompt = asked(model, "What is the capital of Norway?");
    expect(answered(model, prompt, options, 3).stop_text.empty());
    options.stops = {"Oslo", " Norway", "!"};
    const auto answer = answered(model, prompt, options, 3);
    expect(answer.stop_text == " Norway" && answer.ending == Ending::stop_text);
  };

  "drafts in the answer are accepted, all others that were verified are rejected"_test = [] {
    engine::Model model(pebble_options());
    engine::AnswerOptions options;
    options.sampling.temperature = 0.0f;
    const auto prompt = asked(model, "Give me JSON for 3 people.");
    for (const std::int32_t most : {5, 6, 7, 8, 60}) {
      options.max_tokens = most;
      const auto answer = answered(model, prompt, options, 4);
      const std::int64_t verified = std::accumulate(answer.drafts.drafted.begin(), answer.drafts.drafted.end(), std::int64_t{0});
      const std::int64_t right = std::accumulate(answer.drafts.accepted.begin(), answer.drafts.accepted.end(), std::int64_t{0});
      expect(answer.accepted_drafts + answer.rejected_drafts == verified);
      expect(answer.accepted_drafts > 0 && answer.accepted_drafts <= right);
      // Every other id was chosen by the prompt or by a round.
      const auto ids = static_cast<std::int64_t>(answer.ids.size());
      expect(answer.accepted_drafts <= ids - 1 && answer.accepted_drafts >= ids - 1 - answer.drafts.rounds) << most;
      const auto plain = answered(model, prompt, options, 0);
      expect(plain.accepted_drafts == 0 && plain.rejected_drafts == 0);
    }
    options.max_tokens = 60;
    options.stops = {"\""};
    const auto stopped = answered(model, prompt, options, 7);
    const std::int64_t right = std::accumulate(stopped.drafts.accepted.begin(), stopped.drafts.accepted.end(), std::int64_t{0});
    expect(stopped.accepted_drafts < right) << "those behind the stop are none of the answer";
  };

  "half a call is delivered or dropped, as asked"_test = [] {
    engine::Model model(pebble_options());
    const text::Value messages = text::parse_json(R"([{"role":"user","content":"What is the weather in Paris?"}])", "messages");
    const auto prompt = engine::Prompt::of_messages(model, messages, pebble_tools(), {});
    engine::AnswerOptions options;
    options.sampling.temperature = 0.0f;
    const auto whole = answered(model, prompt, options, 0);
    expect(fatal(whole.calls.size() == 1u && whole.ending == Ending::tool_call));
    for (const int drafts : {0, 4}) {
      options.max_tokens = static_cast<std::int32_t>(whole.ids.size()) - 1;
      options.whole_calls_only = false;
      expect(answered(model, prompt, options, drafts).calls.size() == 1u);
      options.whole_calls_only = true;
      const auto cut = answered(model, prompt, options, drafts);
      expect(cut.calls.empty() && cut.content.empty() && cut.unfinished && cut.ending == Ending::max_tokens);
      options.max_tokens = 0;
      expect(answered(model, prompt, options, drafts).calls.size() == 1u) << "a whole one is";
    }
  };
};

}  // namespace
}  // namespace lapidary::test::delivery_test
