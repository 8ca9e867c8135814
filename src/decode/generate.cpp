#include "decode/generate.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "checkpoint/error.hpp"

namespace lapidary::decode {

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::none: return "none";
    case StopReason::stop_token: return "stop";
    case StopReason::complete: return "complete";
    case StopReason::max_tokens: return "max_tokens";
    case StopReason::context: return "context";
    case StopReason::cancelled: return "cancelled";
  }
  return "";
}

namespace {

double seconds_of(const Session::Round& round, graph::SegmentId id) { return round.report.seconds[static_cast<std::size_t>(id)]; }

double draft_seconds_of(const Session::Round& round) {
  using graph::SegmentId;
  return seconds_of(round, SegmentId::draft) + seconds_of(round, SegmentId::catch_up) + seconds_of(round, SegmentId::block);
}

}  // namespace

Generation::Generation(Session& session, std::span<const std::int32_t> prompt, GenerateOptions options)
    : session_(session), options_(std::move(options)),
      drafting_(options_.speculation ? options_.speculation->begin_text(options_.drafts, options_.prediction) : Speculation().begin_text()), request_{.sampling = options_.sampling} {
  session.rollback(session.length());  // without the rounds that another generation has in flight
  history_.reserve(static_cast<std::size_t>(session.capacity()) + 1);
  history_.assign(session.tokens().begin(), session.tokens().end());
  history_.insert(history_.end(), prompt.begin(), prompt.end());
  if (options_.sampling.penalises()) {
    history_counts_.resize(session.vocab());
    for (const std::int32_t token : history_)
      if (token >= 0 && token < session.vocab()) ++history_counts_[token];
    request_.counts = history_counts_;
  }
  hooks_.cancel = options_.cancel;
  if (options_.constraint) {
    hooks_.prune = [this](std::span<const std::int32_t> drafts) { return prune(drafts); };
    hooks_.fill = [this] { fill_masks(); };
    limits_.assign(graph::kMaxVerifyRows, *options_.constraint);
    masks_.resize(graph::kMaxVerifyRows * text::mask_words(session.vocab()));
    prune({});
    fill_masks();
  }
  if (options_.wants_logits) {
    const auto rows = static_cast<std::size_t>(session.widest_round());
    logits_.reserve(rows * static_cast<std::size_t>(session.vocab()));
    hidden_.reserve(rows * static_cast<std::size_t>(session.hidden_size()));
  }
  session_.begin_prompt(std::span(history_).last(prompt.size()), &request_, options_.soft);
  reading_ = true;
}

// Rounds in flight use what is the generation's.
Generation::~Generation() {
  try {
    if (reading_ || session_.in_flight()) stop();
  } catch (const Error&) {
    // The backend has failed, and says so again when it is used.
  }
}

void Generation::take_chosen(std::span<const std::int32_t> tokens) {
  chosen_ = static_cast<int>(tokens.size());
  base_ = session_.length() - (chosen_ - 1);
  taken_ = 0;
  history_.insert(history_.end(), tokens.begin(), tokens.end());
  if (!options_.wants_logits) return;
  logits_.clear();
  hidden_.clear();
  for (int i = 0; i < chosen_; ++i) {
    const std::span logits = session_.logits(i), hidden = session_.hidden(i);
    logits_.insert(logits_.end(), logits.begin(), logits.end());
    hidden_.insert(hidden_.end(), hidden.begin(), hidden.end());
  }
}

// Drafts from the first that the grammar refuses on cannot be accepted.
int Generation::prune(std::span<const std::int32_t> drafts) {
  limits_[0] = *options_.constraint;
  for (limited_ = 1; limited_ <= drafts.size(); ++limited_) {
    limits_[limited_] = limits_[limited_ - 1];
    if (!limits_[limited_].accept(drafts[limited_ - 1])) break;
  }
  return static_cast<int>(limited_) - 1;
}

void Generation::fill_masks() {
  const std::size_t words = text::mask_words(session_.vocab());
  const std::span<std::uint32_t> masks = std::span(masks_).first(limited_ * words);
  for (std::size_t row = 0; row < limited_; ++row)
    limits_[row].fill_mask(masks.subspan(row * words, words), options_.stop_ids);
  request_.masks = masks;
}

void Generation::turn(int most_rows) {
  assert(in_prompt());
  session_.turn(most_rows);
  if (session_.in_prompt()) return;
  reading_ = false;
  const std::int32_t first = session_.next();
  take_chosen({&first, 1});
}

// Drafts that a round may have.
int Generation::draft_room() const {
  const std::int32_t room = std::min(options_.max_tokens - count_, session_.capacity() - session_.length());
  return std::min(kMaxDrafts, room - 1);
}

// Returns its rows; none where it was cancelled.
int Generation::play_round() {
  if (!session_.in_flight() && !session_.begin_round(drafting_->plan(history_, draft_room()), &request_, hooks_)) return 0;
  run_ahead();
  return take_round();
}

int Generation::take_round() {
  const Session::Round round = session_.end_round();
  take(round);
  return round.drafted + 1;
}

bool Generation::wants_round() const {
  return reason_ == StopReason::none && !in_prompt() && taken_ == chosen_ && count_ < options_.max_tokens &&
         session_.length() < session_.capacity() && !ended() && !cancelled();
}

PlayedRounds Generation::play_together(std::span<Generation* const> generations) {
  std::array<Generation*, graph::kMaxVerifyRows> playing;
  std::array<Session::Player, graph::kMaxVerifyRows> players;
  std::array<Offer, graph::kMaxVerifyRows> offers;
  std::size_t count = 0;
  PlayedRounds played;
  for (Generation* generation : generations) {
    if (!generation->wants_round()) continue;
    if (generation->session_.in_flight()) {  // it has begun ahead
      played.add(generation->take_round());
      continue;
    }
    assert(count < playing.size());
    playing[count++] = generation;
  }
  if (count == 0) return played;
  if (count == 1) {
    if (const int rows = playing[0]->play_round()) played.add(rows);
    return played;
  }
  for (std::size_t i = 0; i < count; ++i) offers[i] = playing[i]->drafting_->offer(playing[i]->history_, playing[i]->draft_room());
  // Costs are those of the engine that drafts.
  const auto drafts = std::ranges::find_if(offers.begin(), offers.begin() + count, [](const Offer& offer) { return offer.count > 0; });
  const std::size_t measuring = drafts == offers.begin() + count ? 0 : static_cast<std::size_t>(drafts - offers.begin());
  const int most_rows = playing[0]->session_.widest_round();
  const RowShares shares = share_rows(std::span(offers).first(count), playing[measuring]->drafting_->costs(), most_rows);
  int rows = 0;
  for (std::size_t i = 0; i < count; ++i) {
    Generation& generation = *playing[i];
    players[i] = {&generation.session_, generation.drafting_->take(shares[i]), &generation.request_, &generation.hooks_};
    rows += shares[i] + 1;
  }
  assert(rows <= most_rows);
  Session::begin_rounds(std::span(players).first(count));
  played.add(finish_rounds(std::span(playing).first(count), measuring));
  return played;
}

// What the round cost is said by one of them, now that it is known how many rows grammars have left it: returns that.
int Generation::finish_rounds(std::span<Generation* const> playing, std::size_t measuring) {
  std::array<Session::Round, graph::kMaxVerifyRows> rounds;
  int rows = 0;
  double drafts_s = 0;
  for (std::size_t i = 0; i < playing.size(); ++i) {
    rounds[i] = playing[i]->session_.end_round();
    rows += rounds[i].drafted + 1;
    drafts_s += draft_seconds_of(rounds[i]);
  }
  for (std::size_t i = 0; i < playing.size(); ++i)
    playing[i]->take(rounds[i], rows - rounds[i].drafted - 1, drafts_s - draft_seconds_of(rounds[i]), i == measuring);
  return rows;
}

void Generation::take(const Session::Round& round, int other_rows, double other_draft_s, bool measures) {
  const graph::RoundResult& result = round.report.result;
  drafting_->observe({.drafted = round.drafted, .accepted = result.accepted, .draft_s = draft_seconds_of(round),
                      .verify_s = seconds_of(round, graph::SegmentId::forward) + seconds_of(round, graph::SegmentId::head),
                      .other_rows = other_rows, .other_draft_s = other_draft_s, .measures = measures});
  take_chosen(result.chosen());
}

// Begins the round after the one in flight, unless that one may be the last or the host has a part in it.
void Generation::run_ahead() {
  if (!session_.may_run_ahead() || options_.constraint || options_.wants_logits) return;
  const std::int32_t room = std::min(options_.max_tokens - (count_ + 1), session_.capacity() - session_.most_length());
  if (room < 1) return;
  if (const auto drafts = drafting_->plan_ahead(history_, std::min(kMaxDrafts, room - 1)))
    session_.begin_round(*drafts, &request_, hooks_);  // a cancelled one has not begun
}

void Generation::stop() {
  if (std::exchange(reading_, false)) return session_.leave_prompt();
  session_.rollback(std::min(session_.length(), base_ + taken_));
}

std::optional<std::int32_t> Generation::end(StopReason reason) {
  reason_ = reason;
  stop();
  return std::nullopt;
}

std::optional<std::int32_t> Generation::next() {
  if (reason_ != StopReason::none) return std::nullopt;
  for (; in_prompt(); turn())
    if (cancelled()) return end(StopReason::cancelled);
  if (cancelled()) return end(StopReason::cancelled);
  if (ended()) return end(StopReason::complete);
  if (count_ == options_.max_tokens) return end(StopReason::max_tokens);
  if (taken_ == chosen_) {
    if (session_.length() == session_.capacity()) return end(StopReason::context);
    if (!play_round()) return end(StopReason::cancelled);
  }
  const std::int32_t token = history_[history_.size() - static_cast<std::size_t>(chosen_ - taken_)];
  if (std::ranges::find(options_.stop_ids, token) != options_.stop_ids.end()) {
    stop_token_ = token;
    return end(StopReason::stop_token);
  }
  if (options_.constraint) options_.constraint->accept(token);
  if (std::ranges::find(options_.landmarks, token) != options_.landmarks.end()) drafting_->landmark();
  if (taken_ < chosen_ - 1) ++accepted_drafts_;  // the last of a round is no draft
  ++taken_;
  ++count_;
  return token;
}

}  // namespace lapidary::decode
