// Pictures and sounds in requests: from each API to the same prompt, within limits.
#include <boost/ut.hpp>

#include <algorithm>

#include "serve/media.hpp"
#include "serve/requests.hpp"
#include "serve/running_server.hpp"
#include "support/program.hpp"
#include "text/base64.hpp"

namespace lapidary::test::media_test {
namespace {

using namespace boost::ut;
using namespace serve;
using Kind = text::Media::Kind;

const std::string kShapes = read_all(kRoot + "/models/examples/shapes.png"), kShapesText = "A yellow diamond and a white diamond.";
const std::string kPcm = read_all(kFixtures + "/audio/pcm16.wav");

std::string data_url(const std::string& bytes) { return "data:image/png;base64," + text::to_base64(bytes); }

// The messages, and behind each "|" an item: its kind, path, budget and bytes.
std::string told(const Job& job) {
  const auto& prompt = std::get<ChatPrompt>(job.prompt);
  std::string all = text::to_json(prompt.messages);
  for (const MediaItem& item : prompt.media)
    all += std::string("|") + (item.kind == Kind::image ? "image " : "audio ") + item.path + " " + std::to_string(item.image_tokens) + " " + item.bytes;
  return all;
}

template <class Read>
std::string told(Read read, const std::string& body) {
  std::string all;
  const std::string verdict = verdict_of([&] { all = told(read(parse_body(body), some_facts()).job); });
  return verdict == "ok" ? all : verdict;
}
std::string chat(const std::string& parts) { return told(read_chat, R"({"messages":[{"role":"user","content":[)" + parts + "]}]}"); }
std::string response(const std::string& parts) { return told(read_response, R"({"input":[{"role":"user","content":[)" + parts + "]}]}"); }
std::string message(const std::string& parts) { return told(read_message, R"({"max_tokens":9,"messages":[{"role":"user","content":[)" + parts + "]}]}"); }

const graph::Graph& graph_named(std::string_view name) {
  return **std::ranges::find_if(graph::compiled_graphs(), [&](const graph::Graph* graph) { return graph->name == name; });
}

std::string refusal_of(const graph::Graph& graph, const std::vector<MediaItem>& items, const MediaLimits& limits = {}) {
  const auto refusal = refusal_from([&] { media_of(graph, 70, items, limits); });
  return refusal ? std::to_string(refusal->status) + " " + std::string(refusal->code) + " " + refusal->param + " " + refusal->message : "ok";
}
bool has(const std::string& text, const std::string& part) { return text.find(part) != text.npos; }

const suite<"media in requests"> media_in_requests = [] {
  "every API brings pictures and sounds, in their order"_test = [] {
    expect(chat(R"({"type":"image_url","image_url":{"url":"data:image/png;base64,Zm9v","detail":"low"}},{"type":"text","text":"x"},)"
                R"({"type":"input_audio","input_audio":{"data":"Zm8=","format":"wav"}})") ==
           R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"x"},{"type":"audio"}]}])"
           "|image messages[0].content[0].image_url.url 70 foo|audio messages[0].content[2].input_audio.data 0 fo");
    expect(chat(R"({"type":"image_url","image_url":{"url":"data:;base64,Zm9v","detail":"high"}},{"type":"image_url","image_url":{"url":"data:;base64,Zg==","detail":"auto"}})") ==
           R"([{"role":"user","content":[{"type":"image"},{"type":"image"}]}])"
           "|image messages[0].content[0].image_url.url 1120 foo|image messages[0].content[1].image_url.url 0 f");
    expect(response(R"({"type":"input_text","text":"x"},{"type":"input_image","image_url":"data:image/png;base64,Zm9v","detail":"low"})") ==
           R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"image"}]}])"
           "|image input[0].content[1].image_url 70 foo");
    expect(message(R"({"type":"image","source":{"type":"base64","media_type":"image/png","data":"Zm9v"},"cache_control":{"type":"ephemeral"}},{"type":"text","text":"x"})") ==
           R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"x"}]}])"
           "|image messages[0].content[0].source.data 0 foo");
  };

  "addresses are never fetched, and data must be whole"_test = [] {
    const auto url = [](const std::string& text) { return chat(R"({"type":"image_url","image_url":{"url":")" + text + "\"}}"); };
    for (const char* text : {"https://host/cat.png", "http://127.0.0.1/x", "file:///etc/passwd", "/etc/passwd", "", "data:image/png,Zm9v", "data:image/png;base64,Zm9"})
      expect(url(text) == "messages[0].content[0].image_url.url invalid_value") << text;
    const auto refusal = refusal_from([] { read_chat(parse_body(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://host/cat.png"}}]}]})"), some_facts()); });
    expect(refusal->message == R"([messages[0].content[0].image_url.url] expected data:TYPE;base64,..., as addresses are never fetched, got "https://host/cat.png")") << refusal->message;
    const std::string long_data = "data:image/png;base64," + std::string(4001, 'A');
    const auto cut = refusal_from([&] { read_chat(parse_body(R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" + long_data + "\"}}]}]}"), some_facts()); });
    expect(cut->message.size() < 300u) << "what a client sent is not sent back";

    expect(chat(R"({"type":"image_url"})") == "messages[0].content[0].image_url invalid_value");
    expect(chat(R"({"type":"image_url","image_url":{"url":"data:;base64,","detail":"huge"}})") == "messages[0].content[0].image_url.detail invalid_value");
    expect(chat(R"({"type":"image_url","image_url":{"url":"data:;base64,","x":1}})") == "messages[0].content[0].image_url.x unknown_parameter");
    expect(chat(R"({"type":"input_audio","input_audio":{"data":"!"}})") == "messages[0].content[0].input_audio.data invalid_value");
    expect(response(R"({"type":"input_image","file_id":"f"})") == "input[0].content[0].file_id unsupported_parameter");
    expect(message(R"({"type":"image","source":{"type":"url","url":"https://host/cat.png"}})") == "messages[0].content[0].source.type unsupported_parameter");
    expect(message(R"({"type":"document"})") == "messages[0].content[0].document unsupported_parameter");
  };

  "a request has at most 32 of them"_test = [] {
    std::string parts;
    const std::string one = R"({"type":"image_url","image_url":{"url":"data:;base64,Zm9v"}})";
    for (int i = 0; i < 32; ++i) parts += (i ? "," : "") + one;
    expect(chat(parts).starts_with("[{"));
    expect(chat(parts + "," + one) == "messages[0].content[32].image_url.url invalid_value");
  };

  "only messages of the user have them"_test = [] {
    for (const char* role : {"system", "developer", "assistant"})
      expect(told(read_chat, R"({"continue_final_message":true,"messages":[{"role":")" + std::string(role) + R"(","content":[{"type":"image_url","image_url":{"url":"data:;base64,"}}]}]})") ==
             "messages[0].content[0].image_url unsupported_parameter") << role;
  };
};

const suite<"media within limits"> media_within_limits = [] {
  const graph::Graph& pebble = graph_named("pebble");

  "sizes are looked at before anything is decoded"_test = [&] {
    const MediaItem shapes{.kind = Kind::image, .bytes = kShapes, .path = "p"};
    expect(refusal_of(pebble, {shapes, shapes}) == "ok");
    expect(has(refusal_of(pebble, {shapes}, {.bytes = 100}), "400 invalid_value p [p] file, expected at most 100 bytes"));
    expect(has(refusal_of(pebble, {shapes}, {.side = 10}), "400 invalid_value p [p] "));
    const media::Size size = media::decode_picture(std::as_bytes(std::span(kShapes)), "p").size;
    MediaItem second = shapes;
    second.path = "q";
    expect(refusal_of(pebble, {shapes, second}, {.pixels = 2 * size.pixels()}) == "ok");
    expect(has(refusal_of(pebble, {shapes, second}, {.pixels = 2 * size.pixels() - 1}), "400 invalid_value q [q] ")) << "all pictures count together";
    const std::string bomb = read_all(kFixtures + "/bad/png/bomb.png");
    expect(has(refusal_of(pebble, {{.kind = Kind::image, .bytes = bomb, .path = "p"}}), "400 "));
  };

  "what is no picture is refused, and what the model cannot take"_test = [&] {
    expect(has(refusal_of(pebble, {{.kind = Kind::image, .bytes = kPcm, .path = "p"}}), "400 unsupported_parameter p [p] format, expected one of PNG"));
    expect(has(refusal_of(pebble, {{.kind = Kind::image, .bytes = kShapes.substr(0, kShapes.size() / 2), .path = "p"}}), "400 "));
    const std::string gif = read_all(kFixtures + "/media/plain.gif"), ogg = read_all(kFixtures + "/media/tone-22050.ogg");
    expect(has(refusal_of(pebble, {{.kind = Kind::image, .bytes = gif, .path = "p"}}), "400 unsupported_parameter p [p] format, expected one of PNG, JPEG, WebP, got"));
    expect(has(refusal_of(graph_named("gemma-4-e2b"), {{.kind = Kind::audio, .bytes = ogg, .path = "p"}}), "400 unsupported_parameter p [p] format, expected one of WAV, got"));
    expect(has(refusal_of(pebble, {{.kind = Kind::audio, .bytes = kPcm, .path = "p"}}), "400 unsupported_parameter p [p] sound, expected a model that hears, got pebble"));
  };

  "sounds have an end"_test = [] {
    const graph::Graph& e2b = graph_named("gemma-4-e2b");
    const MediaItem sound{.kind = Kind::audio, .bytes = kPcm, .path = "p"};
    expect(refusal_of(e2b, {sound}) == "ok") << refusal_of(e2b, {sound});
    expect(refusal_of(e2b, {sound}, {.seconds = 1}) == "400 invalid_value p [p] sound, expected at most 1 s, got more") << refusal_of(e2b, {sound}, {.seconds = 1});
  };

  "a detail decides how many tokens a picture takes"_test = [&] {
    const auto tokens = [&](std::int32_t image_tokens) {
      return media_of(pebble, 70, std::vector<MediaItem>{{.kind = Kind::image, .bytes = kShapes, .image_tokens = image_tokens, .path = "p"}}).front().announced().soft_tokens;
    };
    expect(tokens(0) == 63_i && tokens(70) == 63_i && tokens(1120) > 900_i);
  };
};

const suite<"a server that sees"> server_that_sees = [] {
  "answers a question about a picture in every API, and keeps it out of its log"_test = [] {
    RunningServer server(pebble_with(2));
    const std::string letters = text::to_base64(kShapes), text = R"("What is in this picture?")";
    const std::string body = R"({"temperature":0,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,)" + letters +
                             R"("}},{"type":"text","text":)" + text + "}]}]}";
    for (int time = 0; time < 2; ++time) {
      const Reply reply = server.post("/v1/chat/completions", body);
      expect(fatal(reply.status == 200)) << reply.body;
      const text::Value answer = text::parse_json(reply.body, "reply");
      expect(*answer.find("choices")->array()->front().find("message")->find("content") == text::Value(kShapesText)) << reply.body;
      const text::Value& usage = *answer.find("usage");
      expect(*usage.find("prompt_tokens") == text::Value(85)) << reply.body;
      expect((*usage.find("prompt_tokens_details")->find("cached_tokens")->integer() > 0) == (time == 1)) << "the same picture is known again";
    }
    const Reply response = server.post("/v1/responses", R"({"temperature":0,"input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,)" + letters +
                                                            R"("},{"type":"input_text","text":)" + text + "}]}]}");
    expect(response.status == 200_i && has(response.body, kShapesText)) << response.body;
    const std::string blocks = R"("messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":")" + letters +
                               R"("}},{"type":"text","text":)" + text + "}]}]}";
    const Reply message = server.post("/v1/messages", R"({"max_tokens":50,"temperature":0,)" + blocks);
    expect(message.status == 200_i && has(message.body, kShapesText)) << message.body;
    expect(server.post("/v1/messages/count_tokens", "{" + blocks).body == R"({"input_tokens":85})");

    const Reply broken = server.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" + data_url(kShapes.substr(0, 400)) + R"("}}]}]})");
    expect(broken.status == 400_i && has(broken.body, "messages[0].content[0].image_url.url")) << broken.body;
    const Reply large = server.post("/v1/chat/completions", R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"detail":"high","url":")" + data_url(kShapes) + R"("}}]}]})");
    expect(large.status == 400_i && has(large.body, "as many as a chunk has rows")) << large.body;
    expect(!has(server.log(), letters.substr(0, 30))) << server.log();
  };
};

}  // namespace
}  // namespace lapidary::test::media_test
