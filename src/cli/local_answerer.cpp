// Only what is new in a conversation is computed; the rest is in the session.
#include "cli/answer.hpp"
#include "cli/answerer.hpp"
#include "cli/progress.hpp"

namespace lapidary::cli {
namespace {

constexpr const char* kContextAdvice = "; /reset starts again, --context makes room for more";

class LocalAnswerer final : public Answerer {
 public:
  explicit LocalAnswerer(const EngineFlags& flags) : model_(flags.load()), conversation_(*model_), quiet_(flags.quiet) {}

  std::int32_t context_tokens() const override { return conversation_.session.capacity(); }

  void look_at(const std::shared_ptr<const MediaFile>& file) override { medium(file); }

  Reply answer(const Question& question, Printer& printer) override {
    std::vector<engine::Medium> media;
    for (const auto& file : question.asked.media) media.push_back(medium(file));
    engine::Prompt asked = engine::Prompt::of_messages(*model_, question.asked.messages, question.tools, {.think = question.think}, media);
    if (asked.ids.size() >= static_cast<std::size_t>(context_tokens()))
      fail(ErrorKind::usage, "context", "expected fewer than " + std::to_string(context_tokens()) + " tokens, got " +
                                            std::to_string(asked.ids.size()) + kContextAdvice);
    InterruptGuard guard;
    engine::AnswerOptions options = question.options;
    options.cancel = &guard.cancelled();
    engine::Answer answer(conversation_, std::move(asked), options);
    const engine::Answer::Result& result = answer.result();
    StatusLine line(quiet_);
    while (const auto event = answer.turn()) {
      show_prompt(line, answer);
      printer.print(*event, result.ids.size());
    }
    printer.finish();
    tell_cut_short({result.ending, result.ids.size(), context_tokens(), result.unfinished, kContextAdvice});
    if (question.stats) print_stats(conversation_, result);
    return {result.content, result.calls};
  }

 private:
  // Decoded once, however long the conversation gets.
  const engine::Medium& medium(const std::shared_ptr<const MediaFile>& file) {
    const auto found = media_.find(file);
    if (found != media_.end()) return found->second;
    return media_.emplace(file, medium_of(*file, *model_->program.graph, model_->image_tokens)).first->second;
  }

  const std::unique_ptr<engine::Model> model_;
  engine::Conversation conversation_;
  std::map<std::shared_ptr<const MediaFile>, engine::Medium> media_;
  const bool quiet_;
};

}  // namespace

std::unique_ptr<Answerer> local_answerer(const EngineFlags& flags) { return std::make_unique<LocalAnswerer>(flags); }

}  // namespace lapidary::cli
