// Pictures, sounds and videos from files to answers: what a model says about them, whoever drafts, whatever was kept, and what is refused.
#include <boost/ut.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/pebble.hpp"
#include "engine/saved.hpp"
#include "support/soft_prompts.hpp"
#include "text/tokenizer_files.hpp"

namespace lapidary::test::media_test {
namespace {

using namespace boost::ut;
using engine::Answer;
using engine::AnswerOptions;
using engine::Conversation;
using engine::Medium;
using engine::Prompt;

const std::string kExamples = kRoot + "/models/examples/";

std::vector<std::byte> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(file), {});
  const auto all = std::as_bytes(std::span(bytes));
  return {all.begin(), all.end()};
}

Medium picture(const engine::Model& model, const std::string& name, std::int32_t budget = 0) {
  return Medium::image(*model.program.graph, bytes_of(kExamples + name), name, budget ? budget : model.image_tokens);
}

// A question about pictures before it.
Prompt asked_about(const engine::Model& model, const std::vector<std::string>& names, const std::string& question) {
  text::Value::Array parts;
  std::vector<Medium> media;
  for (const std::string& name : names) {
    parts.emplace_back(text::Value::Object{{"type", "image"}});
    media.push_back(picture(model, name));
  }
  parts.emplace_back(text::Value::Object{{"type", "text"}, {"text", question}});
  return Prompt::of_messages(model, text::Value::Array{text::Value::Object{{"role", "user"}, {"content", parts}}}, {}, {}, media);
}

AnswerOptions with(float temperature, int most = 24) {
  AnswerOptions options{.max_tokens = most};
  options.sampling.temperature = temperature;
  options.sampling.seed = 5;
  return options;
}

engine::ModelOptions options_of(int sessions, link::Numeric numeric) {
  engine::ModelOptions options = pebble_options(sessions);
  options.numeric = numeric;
  return options;
}

// A tiny model of the fixtures that sees and hears, with its drafters. Its tokens are bytes, so that prompts are made of ids.
class Listener {
 public:
  Listener(const std::string& kind, link::Numeric numeric) {
    std::filesystem::copy(kFixtures + "/models/" + kind + "-bf16", folder_.path(), std::filesystem::copy_options::recursive);
    folder_.write("tokenizer.json", SmallTokenizer{}.text());
    engine::ModelOptions options{.folder = folder_.path(), .numeric = numeric, .image_tokens = 70};
    options.link.context_tokens = 1024;
    for (const char* drafter : {"/assistants/", "/dflash/"}) options.draft.drafters.push_back(kFixtures + drafter + kind + "-bf16");
    model_ = std::make_unique<engine::Model>(options);
  }

  engine::Model& model() const { return *model_; }
  const graph::Graph& graph() const { return *model_->program.graph; }

  Prompt prompt(std::vector<std::int32_t> ids, std::span<const Medium> media) const {
    Prompt made = Prompt::of_ids(std::move(ids));
    made.percepts = engine::percepts_of(media);
    made.blocks = engine::blocks_of(engine::soft_runs(made.ids, engine::SoftIds::of_config(folder_.path())), made.percepts);
    return made;
  }

 private:
  TemporaryFolder folder_;
  std::unique_ptr<engine::Model> model_;
};

// What is said without drafts, after seeing that drafts change nothing of it.
std::vector<std::int32_t> said_by_all(const Listener& listener, const Prompt& prompt, float temperature) {
  const Answer::Result plain = answered(listener.model(), prompt, with(temperature, 12), 0);
  for (const int drafts : {1, 4}) {
    const Answer::Result drafted = answered(listener.model(), prompt, with(temperature, 12), drafts);
    expect(drafted.ids == plain.ids) << drafts << "drafts, temperature" << temperature;
    expect(drafted.accepted_drafts + drafted.rejected_drafts > 0);
  }
  return plain.ids;
}

const suite<"media"> media_suite = [] {
  "pebble says about its pictures what the reference says"_test = [] {
    engine::Model model(pebble_options());
    expect(eq(model.image_tokens, 70));
    simdjson::dom::parser parser;
    int asked = 0;
    for (const simdjson::dom::element entry : parser.load(kRoot + "/models/pebble/golden.json")) {
      simdjson::dom::array images;
      if (entry["images"].get(images)) continue;
      std::vector<std::string> names;
      for (const std::string_view name : images) names.emplace_back(name);
      const auto ids = [&](const char* key) {
        std::vector<std::int32_t> list;
        for (const std::int64_t id : entry[key]) list.push_back(static_cast<std::int32_t>(id));
        return list;
      };
      const Prompt prompt = asked_about(model, names, std::string(std::string_view(entry["prompt"])));
      expect(prompt.ids == ids("input_ids")) << names[0];
      expect(eq(prompt.blocks.size(), names.size()));
      const Answer::Result result = answered(model, prompt, with(0, 100), 0);
      std::vector<std::int32_t> expected = ids("greedy");
      if (!expected.empty() && std::ranges::find(model.defaults.eos_tokens, expected.back()) != model.defaults.eos_tokens.end()) expected.pop_back();
      expect(result.ids == expected) << names[0] << result.content;
      expect(result.content == std::string_view(entry["text"])) << result.content;
      ++asked;
    }
    expect(eq(asked, 8));
  };

  for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
    boost::ut::test("drafts change no byte of what is said about pictures, " + std::string(name_of(numeric))) = [=] {
      engine::Model model(options_of(1, numeric));
      for (const Prompt& prompt : {asked_about(model, {"objects.png"}, "Describe the picture as JSON."), asked_about(model, {"pair-1.png", "pair-2.png"}, "What is different?")})
        for (const float temperature : {0.0f, 1.2f}) {
          const Answer::Result plain = answered(model, prompt, with(temperature), 0);
          for (const int drafts : {1, 3, 7}) {
            const Answer::Result drafted = answered(model, prompt, with(temperature), drafts);
            expect(drafted.ids == plain.ids) << drafts << "drafts, temperature" << temperature;
            expect(drafted.accepted_drafts + drafted.rejected_drafts > 0);
          }
        }
    };

  for (const char* kind : {"ple", "unified"})
    for (const link::Numeric numeric : {link::Numeric::exact, link::Numeric::fast})
      boost::ut::test(std::string(kind) + " says about a picture and a sound what the reference says, drafts or not, " + std::string(name_of(numeric))) = [=] {
        const Listener listener(kind, numeric);
        const SoftFixture fixture(kind);
        const SoftPrompt& golden = fixture.prompts.at("image-audio");
        std::vector<Medium> media;
        for (const decode::SoftBlock& block : golden.blocks)
          media.push_back(block.is_image ? Medium::image(listener.graph(), bytes_of(kFixtures + "/images/" + block.content + ".png"), "a picture", 70)
                                         : Medium::audio(listener.graph(), bytes_of(kFixtures + "/audio/" + block.content + ".wav"), "a sound"));
        const Prompt prompt = listener.prompt(golden.ids, media);
        const std::vector<std::int32_t> said = said_by_all(listener, prompt, 0);
        if (numeric == link::Numeric::exact) expect(said == fixture.expected.ids("image-audio.greedy"));
        said_by_all(listener, prompt, 0.9f);
      };

  "drafts change no byte of what is said about a video, whose frames come one after the other"_test = [] {
    for (const char* kind : {"ple", "unified"}) {
      const Listener listener(kind, link::Numeric::fast);
      const Medium video = Medium::video(listener.graph(), bytes_of(kFixtures + "/media/shades.webm"), "a video");
      Medium backwards = video;
      std::ranges::reverse(backwards.percepts);
      constexpr std::int32_t kOpen = 245, kClose = 246, kFrame = 248;
      std::vector<std::int32_t> ids = {2, 17, 40};
      for (const auto& frame : video.percepts) {
        ids.push_back(kOpen);
        ids.insert(ids.end(), static_cast<std::size_t>(frame->soft_tokens), kFrame);
        ids.push_back(kClose);
      }
      ids.insert(ids.end(), {90, 41, 17});
      const Prompt prompt = listener.prompt(ids, {&video, 1});
      expect(eq(prompt.blocks.size(), 12u));
      const std::vector<std::int32_t> said = said_by_all(listener, prompt, 0.9f);
      expect(answered(listener.model(), listener.prompt(ids, {&backwards, 1}), with(0.9f, 12), 0).ids != said) << kind;
    }
  };

  "a picture that was seen is not looked at again, another one of the same size is"_test = [] {
    engine::Model model(pebble_options(2));
    const Prompt about = asked_about(model, {"shapes.png"}, "What is in this picture?");
    const Answer::Result alone = answered(model, about, with(0), 0);
    Conversation conversation(model);
    const auto turns_of = [&](const Prompt& prompt, Answer::Result& result) {  // that were not a token
      Answer answer(conversation, prompt, with(0));
      int turns = 0;
      while (answer.in_prompt() && answer.turn()) ++turns;
      result = finish(answer);
      return turns;
    };
    Answer::Result result;
    expect(eq(turns_of(about, result), 2));  // the tower, then the chunk
    expect(result.ids == alone.ids);
    expect(eq(turns_of(asked_about(model, {"shapes.png"}, "Describe the picture as JSON."), result), 1));
    expect(result.reused_tokens > about.blocks[0].end - 1);
    Prompt other = about;  // the same ids
    engine::Percept turned = *about.percepts[0];
    std::ranges::reverse(turned.picture.rgb);
    other.percepts = {std::make_shared<const engine::Percept>(std::move(turned))};
    other.blocks[0].content = "upside down";
    expect(eq(turns_of(other, result), 2));
    expect(eq(result.reused_tokens, about.blocks[0].begin));
    expect(eq(turns_of(about, result), 2));
    expect(result.ids == alone.ids);
  };

  "a saved conversation knows its pictures"_test = [] {
    engine::Model model(pebble_options());
    const TemporaryFolder folder;
    const Prompt about = asked_about(model, {"colour.png"}, "What colour is the square?");
    const Prompt other = asked_about(model, {"count.png"}, "What colour is the square?");
    Answer::Result plain;
    {
      Conversation conversation(model);
      Answer answer(conversation, about, with(0));
      plain = finish(answer);
      engine::save(conversation, folder.path("session"));
    }
    Conversation conversation(model);
    for (const auto& [prompt, least] : {std::pair{&about, about.blocks[0].end}, {&other, 0}}) {
      engine::restore(conversation, folder.path("session"));
      Answer answer(conversation, *prompt, with(0));
      const Answer::Result result = finish(answer);
      expect(result.reused_tokens >= least && (prompt == &about || result.reused_tokens <= about.blocks[0].begin)) << result.reused_tokens;
      expect((result.ids == plain.ids) == (prompt == &about));
    }
  };

  "an answer is cancelled between two pictures"_test = [] {
    engine::Model model(pebble_options());
    Conversation conversation(model);
    Answer answer(conversation, asked_about(model, {"pair-1.png", "pair-2.png"}, "What is different?"), with(0));
    answer.turn();
    expect(answer.in_prompt() && answer.read_tokens() == 0);
    answer.cancel();
    finish(answer);
    expect(answer.result().ending == engine::Ending::cancelled && answer.result().ids.empty());
  };

  "media that do not belong to the messages, or to the model, are refused"_test = [] {
    engine::Model model(pebble_options());
    const Medium one = picture(model, "word.png");
    const auto messages = text::parse_json(R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"Read it."}]}])", "messages");
    const auto outcome = [&](const text::Value& of, const std::vector<Medium>& media) {
      return outcome_of([&] { Prompt::of_messages(model, of, {}, {}, media); });
    };
    expect(outcome(messages, {one}) == "ok");
    expect(outcome(messages, {}) == "bad_value");
    expect(outcome(messages, {one, one}) == "bad_value");
    expect(outcome(text::parse_json(R"([{"role":"user","content":[{"type":"audio"}]}])", "messages"), {one}) == "bad_value");
    expect(outcome(text::parse_json(R"([{"role":"user","content":"<|image|>"}])", "messages"), {one}) == "bad_value");
    expect(outcome_of([&] { Medium::audio(*model.program.graph, bytes_of(kFixtures + "/audio/pcm16.wav"), "a sound"); }) == "unsupported");
    expect(outcome_of([&] { picture(model, "word.png", 71); }) == "usage");
    expect(outcome_of([&] { Medium::image(*model.program.graph, bytes_of(kRoot + "/README.md"), "a text", 70); }) != "ok");
    // All of its soft tokens see each other, and the chunks of this plan have 256 rows.
    expect(outcome(messages, {picture(model, "word.png", 560)}) == "usage");
    engine::ModelOptions larger = pebble_options();
    larger.image_tokens = 560;
    engine::Model large(larger);
    expect(eq(large.image_tokens, 560) && eq(large.program.plan.chunk_rows, 560));
  };

  "the budget of pictures is that of the checkpoint's files, the first that names one"_test = [] {
    const TemporaryFolder folder;
    folder.write("config.json", R"({"vision_config": {"default_output_length": 140}})");
    expect(eq(engine::read_image_budget(folder.path("")), 140));
    folder.write("preprocessor_config.json", R"({"max_soft_tokens": 560, "image_seq_length": 70})");
    expect(eq(engine::read_image_budget(folder.path("")), 560));
    folder.write("processor_config.json", R"({"image_processor": {"max_soft_tokens": 1120}})");
    expect(eq(engine::read_image_budget(folder.path("")), 1120));
    folder.write("processor_config.json", R"({"max_soft_tokens": 99})");  // no budget: somebody else may know
    expect(eq(engine::read_image_budget(folder.path("")), 560));
    folder.write("processor_config.json", "[");
    expect(outcome_of([&] { engine::read_image_budget(folder.path("")); }) == "not_json");
    const TemporaryFolder none;
    expect(eq(engine::read_image_budget(none.path("")), 280));
  };
};

}  // namespace
}  // namespace lapidary::test::media_test
