#include "text/output_parser.hpp"

#include <optional>
#include <string_view>
#include <utility>

#include "text/tool_call.hpp"
#include "text/whitespace.hpp"

namespace lapidary::text {

namespace {

// One channel of output without the white space at its ends: held back until something follows it.
class Stripped {
 public:
  explicit Stripped(bool started = false) : started_(started) {}

  std::string push(std::string_view text) {
    if (!started_) text.remove_prefix(whitespace_at_front(text));
    const std::size_t tail = whitespace_at_back(text);
    std::string ready;
    if (tail < text.size()) {
      ready = held_ + std::string(text.substr(0, text.size() - tail));
      held_.clear();
      started_ = true;
    }
    held_ += text.substr(text.size() - tail);
    return ready;
  }

  std::size_t held() const { return held_.size(); }

 private:
  bool started_;  // something stands before it
  std::string held_;
};

// Drops a word (and one newline) that may stand right after a marker.
class Header {
 public:
  void expect(std::string_view word) {
    word_ = word;
    seen_.clear();
  }

  // The part of the text that does not belong to the header; all that was held back when it turns out to be none.
  std::string push(std::string_view text) {
    if (word_.empty()) return std::string(text);
    seen_ += text;
    if (word_.starts_with(seen_)) return "";  // not certain yet
    std::string rest = std::exchange(seen_, {});
    if (rest.starts_with(word_)) {
      rest.erase(0, word_.size());
      if (rest.starts_with('\n')) rest.erase(0, 1);
    }
    word_ = {};
    return rest;
  }

  // No text follows: an incomplete word was text.
  std::string finish() {
    const bool is_word = std::exchange(word_, {}) == seen_;
    std::string rest = std::exchange(seen_, {});
    return is_word ? "" : rest;
  }

  std::size_t held() const { return seen_.size(); }

 private:
  std::string_view word_;  // empty: nothing expected
  std::string seen_;
};

}  // namespace

struct OutputParser::State {
  enum class Mode : std::uint8_t { text, thought, call, stopped };

  State(const Tokenizer& tokenizer, Begin begin)
      : detokenizer(tokenizer),
        mode(begin == Begin::in_thought ? Mode::thought : Mode::text),
        content(begin == Begin::in_text),
        open_thought(tokenizer.special("<|channel>")),
        close_thought(tokenizer.special("<channel|>")),
        open_call(tokenizer.special("<|tool_call>")),
        close_call(tokenizer.special("<tool_call|>")),
        open_result(tokenizer.special("<|tool_response>")),
        open_turn(tokenizer.special("<|turn>")),
        close_turn(tokenizer.special("<turn|>")),
        end_of_text(tokenizer.special("<eos>")),
        quote(tokenizer.special("<|\"|>")) {}

  void push(std::int32_t id, Event& event) {
    const int number = pushed++;
    if (mode == Mode::stopped) return;
    if (id == end_of_text || id == close_turn || id == open_result) {
      stop(event, false);
    } else if (mode == Mode::call) {
      push_in_call(id, event);
    } else if (id == open_thought) {
      enter(Mode::thought, "thought", event);
    } else if (id == close_thought) {
      if (mode == Mode::thought) enter(Mode::text, "", event);
    } else if (id == open_call) {
      enter(Mode::call, "", event);
    } else if (id == open_turn) {
      enter(mode, "model", event);
    } else {
      arrive(detokenizer.push(id, number, arrived), event);
    }
  }

  void push_in_call(std::int32_t id, Event& event) {
    if (id == close_call) {
      finish_call(event);
      mode = Mode::text;
    } else if (id == quote) {
      segments.back() += detokenizer.finish();
      segments.emplace_back();
    } else if (id != open_thought && id != close_thought && id != open_call) {
      segments.back() += detokenizer.push(id);
    }
  }

  void enter(Mode next, std::string_view expected_word, Event& event) {
    finish_text(event);
    mode = next;
    header.expect(expected_word);
    if (mode == Mode::call) segments.assign(1, "");
  }

  void stop(Event& event, bool drops_call) {
    if (mode == Mode::call) {
      if (!drops_call) finish_call(event);
    } else {
      finish_text(event);
    }
    mode = Mode::stopped;
  }

  void finish_text(Event& event) {
    arrive(detokenizer.finish(arrived), event);
    leave_header(header.finish(), event);
  }

  void arrive(std::string_view text, Event& event) { leave_header(header.push(text), event); }
  void leave_header(std::string_view text, Event& event) { emit(text, arrived.pass(text.size(), header.held()), event); }

  void finish_call(Event& event) {
    segments.back() += detokenizer.finish();
    if (auto call = parse_tool_call(segments)) event.calls.push_back(std::move(*call));
  }

  void emit(std::string_view text, std::span<const Origin> origins, Event& event) {
    if (mode == Mode::thought) {
      event.reasoning += reasoning.push(text);
      return;
    }
    const std::string ready = content.push(text);
    event.content += ready;
    stripping.add(origins);
    const std::vector<Origin> passed = stripping.pass(ready.size(), content.held());
    event.content_origins.insert(event.content_origins.end(), passed.begin(), passed.end());
  }

  Detokenizer detokenizer;
  Mode mode;
  Header header;
  Stripped reasoning, content;
  Origins arrived, stripping;         // of what the header holds back, of what waits in `content`
  int pushed = 0;                     // ids
  std::vector<std::string> segments;  // of the call: outside and inside strings in turn

  const std::optional<std::int32_t> open_thought, close_thought, open_call, close_call, open_result, open_turn, close_turn,
      end_of_text, quote;
};

OutputParser::OutputParser(const Tokenizer& tokenizer, Begin begin) : state_(std::make_unique<State>(tokenizer, begin)) {}

OutputParser::~OutputParser() = default;

Event OutputParser::push(std::int32_t id) {
  Event event;
  state_->push(id, event);
  return event;
}

bool OutputParser::in_thought() const { return state_->mode == State::Mode::thought; }
bool OutputParser::in_call() const { return state_->mode == State::Mode::call; }

Event OutputParser::finish(bool drops_call) {
  Event event;
  state_->stop(event, drops_call);
  return event;
}

}  // namespace lapidary::text
