#include "serve/streams.hpp"

#include <algorithm>
#include <exception>
#include <utility>

#include "engine/conversation.hpp"

namespace lapidary::serve {
namespace {

constexpr std::int32_t kMarkTokens = 512;  // after so many of a prompt there is a snapshot, messages or not

Finish finish_of(engine::Ending ending) {
  switch (ending) {
    case engine::Ending::stop_text: return Finish::stop_text;
    case engine::Ending::tool_call: return Finish::tool_calls;
    case engine::Ending::max_tokens:
    case engine::Ending::context: return Finish::length;
    default: return Finish::stop;
  }
}

// Whether somebody may want to go on from a place among these tokens of the prompt.
bool has_mark(const engine::Prompt& prompt, std::int32_t begin, std::int32_t end) {
  if (begin / kMarkTokens != end / kMarkTokens || end == static_cast<std::int32_t>(prompt.ids.size())) return true;
  const auto mark = std::ranges::upper_bound(prompt.marks, begin);
  return mark != prompt.marks.end() && *mark <= end;
}

}  // namespace

// A ticket at work.
struct Streams::Entry {
  std::shared_ptr<Ticket> ticket;
  std::vector<bool> read;            // by prompt: its first choice has computed it
  int started = 0, running = 0, ended = 0;
  bool begun = false;
  std::optional<Refusal> failure{};
  Clock::time_point start{};
  Done done{};

  bool over() const { return running == 0 && (ended == ticket->answers() || ticket->cancelled || failure); }
};

// A session, and the answer that it is busy with.
struct Streams::Stream {
  explicit Stream(engine::Model& model) : conversation(model) {}

  engine::Conversation conversation;
  Entry* entry = nullptr;  // null: nobody's
  int index = 0;           // of the choice
  std::uint64_t id = 0;
  Clock::time_point start{};
  std::optional<engine::Answer> answer{};

  const engine::Prompt& prompt() const { return entry->ticket->prompts[static_cast<std::size_t>(index / entry->ticket->job.choices)]; }
  bool is_first_choice() const { return index % entry->ticket->job.choices == 0; }
};

Streams::Streams(engine::Model& model, std::size_t prefix_cache_bytes, Deliver deliver)
    : model_(model), deliver_(std::move(deliver)), cache_(model.program, prefix_cache_bytes),
      scheduler_(model.program.plan.verify_rows, model.program.plan.chunk_rows) {
  for (int i = 0; i < model.program.plan.sessions; ++i) streams_.push_back(std::make_unique<Stream>(model));
  slots_.resize(streams_.size());
  thread_ = std::thread([this] { run(); });
}

Streams::~Streams() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Streams::submit(std::shared_ptr<Ticket> ticket) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(ticket));
  }
  changed_.notify_one();
}

void Streams::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_one();
}

std::vector<SlotStatus> Streams::slots() const {
  const std::lock_guard lock(mutex_);
  return slots_;
}

Work Streams::work() const {
  const std::lock_guard lock(mutex_);
  return work_;
}

template <class What>
void Streams::tell(const Entry& entry, What what) {
  news_.push_back({entry.ticket, std::move(what)});
}

void Streams::deliver() {
  if (!news_.empty()) deliver_(std::exchange(news_, {}));
}

void Streams::run() {
  std::vector<Stream*> texts;
  std::vector<decode::Scheduler::Text> wishes;
  for (;;) {
    take_inbox();
    settle();
    start_all();
    deliver();  // who has begun knows it before a chunk has been read
    texts.clear();
    wishes.clear();
    for (const auto& stream : streams_) {
      if (!stream->entry) continue;
      using Wish = decode::Scheduler::Wish;
      texts.push_back(stream.get());
      wishes.push_back({stream->id, stream->entry->ticket->parked ? Wish::nothing : stream->answer->in_prompt() ? Wish::chunk : Wish::round});
    }
    const auto unit = scheduler_.next(wishes);
    if (unit.count > 0) play(unit, texts);
    settle();
    publish();
    deliver();
    std::unique_lock lock(mutex_);
    if (unit.count == 0) changed_.wait(lock, [this] { return stopping_ || woken_ || !inbox_.empty(); });
    woken_ = false;
    if (stopping_) return;
  }
}

void Streams::take_inbox() {
  const std::lock_guard lock(mutex_);
  for (auto& ticket : inbox_) {
    auto& entry = *entries_.emplace_back(std::make_unique<Entry>());
    entry.ticket = std::move(ticket);
    entry.read.resize(entry.ticket->prompts.size());
    entry.done.outcome.seed = entry.ticket->job.options.sampling.seed.value();
  }
  inbox_.clear();
}

// Ends what is cancelled, and says goodbye to tickets that are done.
void Streams::settle() {
  for (const auto& stream : streams_)
    if (stream->entry && stream->entry->ticket->cancelled) drain(*stream);
  for (std::size_t i = 0; i < entries_.size();)
    if (entries_[i]->over()) {
      finish(*entries_[i]);
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
}

void Streams::start_all() {
  for (const auto& entry : entries_)
    while (start_next(*entry)) {}
}

// The next choice of a ticket, where there is a session for it. Other choices of a prompt wait until the first has read it, so that they
// find it.
bool Streams::start_next(Entry& entry) {
  const Ticket& ticket = *entry.ticket;
  if (ticket.cancelled || entry.failure || entry.started == ticket.answers()) return false;
  const int prompt = entry.started / ticket.job.choices;
  if (entry.started % ticket.job.choices != 0 && cache_.budget_bytes() > 0 && !entry.read[static_cast<std::size_t>(prompt)]) return false;
  const auto free = std::ranges::find(streams_, nullptr, [](const auto& stream) { return stream->entry; });
  if (free == streams_.end()) return false;
  begin(**free, entry, entry.started);
  return true;
}

void Streams::begin(Stream& stream, Entry& entry, int index) {
  stream.entry = &entry;
  stream.index = index;
  stream.id = ++begun_;
  stream.start = Clock::now();
  ++entry.started;
  ++entry.running;
  try {
    engine::AnswerOptions options = entry.ticket->job.options;
    options.sampling.stream = static_cast<std::uint32_t>(index % entry.ticket->job.choices);
    options.whole_calls_only = true;
    options.cancel = &entry.ticket->cancelled;
    const engine::Prompt& prompt = stream.prompt();
    const std::int32_t cached = cache_.restore(entry.ticket->space, prompt.ids, stream.conversation.session, prompt.blocks);
    stream.answer.emplace(stream.conversation, prompt, options);
    if (stream.is_first_choice()) {
      entry.done.outcome.usage.cached_tokens += cached;
      entry.done.outcome.usage.prompt_tokens += static_cast<std::int64_t>(prompt.ids.size());
    }
    if (!std::exchange(entry.begun, true)) {
      entry.start = stream.start;
      Begun begun;
      begun.usage.cached_tokens = cached;
      for (const engine::Prompt& each : entry.ticket->prompts) begun.usage.prompt_tokens += static_cast<std::int64_t>(each.ids.size());
      tell(entry, begun);
    }
  } catch (...) {
    fail(stream, caught().message);
  }
}

void Streams::play(const decode::Scheduler::Unit& unit, std::span<Stream* const> texts) {
  const Clock::time_point start = Clock::now();
  if (unit.kind == decode::Scheduler::Wish::chunk) return read_chunk(*texts[unit.whose().front()], unit.chunk_rows);
  std::array<engine::Answer*, graph::kMaxVerifyRows> playing;
  for (std::size_t i = 0; i < unit.count; ++i) playing[i] = &*texts[unit.places[i]]->answer;
  decode::PlayedRounds played;
  try {
    played = engine::Answer::play_together(std::span(playing).first(unit.count));
  } catch (...) {
    const std::string why = caught().message;
    for (const std::size_t place : unit.whose()) fail(*texts[place], why);
    return;
  }
  const double seconds = seconds_since(start);
  scheduler_.observe_round(seconds);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < played.count; ++i) ++work_.rounds_by_rows[static_cast<std::size_t>(played.rows[i])];
    work_.round_s.observe(seconds);
  }
  for (const std::size_t place : unit.whose()) drain(*texts[place]);
}

void Streams::read_chunk(Stream& stream, int most_rows) {
  const Clock::time_point start = Clock::now();
  engine::Answer& answer = *stream.answer;
  const std::int32_t before = answer.read_tokens();
  try {
    answer.turn(most_rows);
  } catch (...) {
    return fail(stream, caught().message);
  }
  const std::int32_t after = answer.read_tokens();
  if (after > before) {
    scheduler_.observe_chunk(after - before, seconds_since(start));
    if (has_mark(stream.prompt(), before, after)) cache_.store(stream.entry->ticket->space, stream.conversation.session);
  }
  if (answer.in_prompt() && !stream.entry->ticket->cancelled) return;
  stream.entry->read[static_cast<std::size_t>(stream.index / stream.entry->ticket->job.choices)] = true;
  drain(stream);
}

// All that is there without another round.
void Streams::drain(Stream& stream) {
  engine::Answer& answer = *stream.answer;
  Entry& entry = *stream.entry;
  Delta delta{.index = stream.index};
  bool ended = false;
  try {
    while (entry.ticket->cancelled || (!answer.in_prompt() && !answer.wants_round())) {
      const auto event = answer.turn();
      if (!event) {
        ended = true;
        break;
      }
      delta.reasoning += event->reasoning;
      delta.content += event->content;
      delta.calls.insert(delta.calls.end(), event->calls.begin(), event->calls.end());
      if (entry.ticket->job.options.logprobs < 0) continue;
      for (const int token : event->content_tokens) {
        const auto entry_of = [&](const decode::TokenLogprob& of) {
          return TokenLogprob{of.id, std::string(model_.tokenizer.bytes(of.id)), of.logprob};
        };
        const decode::Logprobs& logprobs = answer.result().logprobs[static_cast<std::size_t>(token)];
        LogprobEntry& made = delta.logprobs.emplace_back(LogprobEntry{entry_of(logprobs.chosen), {}});
        for (const decode::TokenLogprob& top : logprobs.top) made.top.push_back(entry_of(top));
      }
    }
  } catch (...) {
    return fail(stream, caught().message);
  }
  if (entry.done.first_token_s == 0 && !answer.result().ids.empty()) entry.done.first_token_s = seconds_since(entry.start);
  if (!delta.reasoning.empty() || !delta.content.empty() || !delta.calls.empty()) tell(entry, std::move(delta));
  if (ended) end(stream);
}

void Streams::end(Stream& stream) {
  Entry& entry = *stream.entry;
  const engine::Answer::Result& result = stream.answer->result();
  if (result.ending != engine::Ending::cancelled) {
    cache_.store(entry.ticket->space, stream.conversation.session);
    tell(entry, ChoiceEnd{stream.index, finish_of(result.ending), result.stop_text});
  }
  Outcome& outcome = entry.done.outcome;
  outcome.usage.completion_tokens += static_cast<std::int64_t>(result.ids.size());
  outcome.usage.reasoning_tokens += result.reasoning_tokens;
  outcome.usage.accepted_drafts += result.accepted_drafts;
  outcome.usage.rejected_drafts += result.rejected_drafts;
  outcome.prompt_ms += result.first_token_seconds * 1e3;
  outcome.predicted_ms += result.decode_seconds * 1e3;
  if (result.ids.size() > 1 && result.decode_seconds > 0)
    outcome.predicted_per_second = static_cast<double>(result.ids.size() - 1) / result.decode_seconds;
  stream.answer.reset();
  stream.entry = nullptr;
  --entry.running;
  ++entry.ended;
}

// Our own mistake: a request's mistakes have been told before it came here.
void Streams::fail(Stream& stream, const std::string& why) {
  Entry& entry = *stream.entry;
  entry.failure = Refusal{.status = 500, .code = "internal_error", .message = why};
  entry.ticket->cancelled = true;  // its other choices end too
  stream.answer.reset();
  stream.entry = nullptr;
  --entry.running;
}

void Streams::finish(Entry& entry) {
  if (entry.failure) return tell(entry, *entry.failure);
  tell(entry, entry.done);
}

void Streams::publish() {
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const Stream& stream = *streams_[i];
    slots_[i] = {};
    if (!stream.entry) continue;
    using State = SlotStatus::State;
    slots_[i] = {.state = stream.entry->ticket->parked ? State::parked : stream.answer->in_prompt() ? State::prompt : State::decode,
                 .past_tokens = stream.answer->read_tokens(), .generated_tokens = static_cast<int>(stream.answer->result().ids.size()),
                 .age_s = seconds_since(stream.start)};
  }
  work_.evictions = cache_.evictions();
  work_.cache_bytes = cache_.used_bytes();
}

}  // namespace lapidary::serve
