// A whole server: what it answers, who waits, who leaves, how it ends.
#include <boost/ut.hpp>

#include <future>
#include <set>

#include "serve/requests.hpp"
#include "serve/running_server.hpp"
#include "support/program.hpp"
#include "text/base64.hpp"

namespace lapidary::test::server_test {
namespace {

using namespace boost::ut;
using serve::RawClient;
using serve::Reply;
using serve::ServerOptions;

constexpr int kShortContext = kSlowBuild ? 200 : 640;  // that an answer fills
const std::string kChat = "/v1/chat/completions";
const std::string kCapital = question("What is the capital of Norway?", R"("temperature":0)");
const std::string kOslo = "The capital of Norway is Oslo.";

std::string code_of(const Reply& reply) {
  const text::Value body = text::parse_json(reply.body, "reply");
  const text::Value* error = body.find("error");
  const text::Value* code = error ? error->find("code") : nullptr;
  return std::to_string(reply.status) + " " + (!error ? "ok" : !code || code->is_null() ? "null" : *code->string());
}

std::string content_of(const Reply& reply) {
  const text::Value body = text::parse_json(reply.body, "reply");
  return *body.find("choices")->array()->front().find("message")->find("content")->string();
}

std::int64_t usage_of(const Reply& reply, std::string_view name) {
  const text::Value body = text::parse_json(reply.body, "reply");
  const text::Value& usage = *body.find("usage");
  if (name == "cached_tokens") return *usage.find("prompt_tokens_details")->find(name)->integer();
  return *usage.find(name)->integer();
}

bool later(const Reply& reply) { return !reply.field("Retry-After").empty(); }

// Small enough to fill up before the context does.
ServerOptions impatient() {
  ServerOptions options;
  options.http.unsent_bytes = 1000;
  return options;
}

// Takes a session and does not read: it holds it until it does.
RawClient holding(const RunningServer& server, const std::string& slots = "parked") {
  RawClient client = server.sent(serve::post(kChat, endless(R"("stream":true)")));
  expect(server.has_slots(slots)) << server.slots();
  return client;
}

const suite<"loading"> loading = [] {
  "is said with 503 until the model is there"_test = [] {
    std::promise<void> goes_on;
    RunningServer server([&] {
      goes_on.get_future().wait();
      return std::make_unique<engine::Model>(pebble_with(1));
    }, {});
    const Reply health = server.get("/health");
    expect(health.status == 503_i && health.body == R"({"status":"loading"})" && later(health));
    for (const Reply& reply : {server.post(kChat, kCapital), server.get("/v1/models"), server.get("/metrics"), server.get("/")})
      expect(code_of(reply) == "503 loading" && later(reply)) << reply.body;
    expect(server.get("/nothing").status == 404_i);
    goes_on.set_value();
    expect(server.says("listening on "));
    expect(server.get("/health").body == R"({"status":"ok"})");
    expect(content_of(server.post(kChat, kCapital)) == kOslo);
  };

  "that fails ends the server"_test = [] {
    RunningServer server([]() -> std::unique_ptr<engine::Model> { fail(ErrorKind::io, "model", "is not there"); }, {});
    expect(server.ends());
    expect(server.failure() && server.failure()->where == "model");
  };

  "goes on while it drains, and then it ends"_test = [] {
    std::promise<void> goes_on;
    RunningServer server([&] {
      goes_on.get_future().wait();
      return std::make_unique<engine::Model>(pebble_with(1));
    }, {});
    server.drain();
    expect(server.says("draining"));
    expect(server.get("/health").body == R"({"status":"draining"})");
    goes_on.set_value();
    expect(server.ends());
    expect(!server.failure() && server.log().find("listening") == std::string::npos);
  };
};

const suite<"a server"> a_server = [] {
  "answers every route"_test = [] {
    const RunningServer server(pebble_with(2));
    expect(content_of(server.post(kChat, kCapital)) == kOslo);
    expect(server.post("/v1/completions", R"({"prompt":"The capital of Norway is","temperature":0,"max_tokens":4})").status == 200_i);
    expect(server.post("/v1/responses", R"({"input":"What is the capital of Norway?","temperature":0})").body.find(kOslo) != std::string::npos);
    const std::string message = R"("messages":[{"role":"user","content":"What is the capital of Norway?"}])";
    const Reply answer = server.post("/v1/messages", R"({"max_tokens":40,"temperature":0,)" + message + "}");
    expect(answer.body.find(kOslo) != std::string::npos) << answer.body;
    const std::string counted = server.post("/v1/messages/count_tokens", "{" + message + "}").body;
    const std::string tokens = server.post("/tokenize", "{" + message + "}").body;
    expect(counted == R"({"input_tokens":)" + std::to_string(1 + std::ranges::count(tokens, ',')) + "}") << counted << tokens;
    expect(usage_of(server.post(kChat, kCapital), "prompt_tokens") == 1 + std::ranges::count(tokens, ','));
    expect(server.post("/detokenize", tokens).body.find("capital of Norway") != std::string::npos);
    expect(server.post("/apply-template", "{" + message + "}").body.find("<|turn>model") != std::string::npos);
    expect(server.get("/v1/models").body.find(R"("id":"pebble")") != std::string::npos);
    expect(server.get("/v1/models/pebble").status == 200_i);
    expect(code_of(server.get("/v1/models/granite")) == "404 model_not_found");
    expect(server.get("/props").body.find(R"("kind":"mtp")") != std::string::npos);
    expect(server.get("/").body.starts_with("<!"));
    expect(server.slots() == "idle idle");
    expect(code_of(server.post("/v1/embeddings", "{}")) == "404 unsupported_endpoint");
    expect(code_of(server.get("/v1/responses/resp_1")) == "404 not_found");
  };

  "says what is wrong with path, method and body"_test = [] {
    ServerOptions options;
    options.has_page = false;
    const RunningServer server(pebble_with(1), options);
    expect(code_of(server.get("/nothing")) == "404 not_found");
    expect(code_of(server.get("/")) == "404 not_found");
    const Reply wrong = server.get(kChat);
    expect(wrong.status == 405_i && wrong.field("Allow") == "POST, OPTIONS");
    expect(server.sent("DELETE /health HTTP/1.1\r\nHost: localhost\r\n\r\n").reply().field("Allow") == "GET, HEAD, OPTIONS");
    const Reply asked = server.sent("OPTIONS " + kChat + " HTTP/1.1\r\nHost: localhost\r\n\r\n").reply();
    expect(asked.status == 204_i && asked.field("Allow") == "POST, OPTIONS" && asked.head.find("Access-Control") == std::string::npos);
    const Reply head = server.sent("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n").reply(true);
    expect(head.status == 200_i && head.field("Content-Length") == "15");
    for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens", "/tokenize", "/detokenize", "/apply-template"})
      for (const char* body : {"", "{", "[]", "{}", "{\"nobody\":1}", "\xff", "{\"messages\":[{\"role\":\"tool\"}]}"})
        expect(server.post(path, body).status == 400_i) << path << body;
    expect(server.post("/v1/messages", "{}").body.starts_with(R"({"type":"error")"));
    expect(code_of(server.post(kChat, question("a", R"("temperature":3)"))) == "400 invalid_value");
    std::string long_text;
    for (int i = 0; i < kLongContext; ++i) long_text += " stone";
    expect(code_of(server.post(kChat, question(long_text))) == "400 context_length_exceeded");
    expect(server.metric(R"(lapidary_requests_total{endpoint="other",code="404"})") == 1.0_d);
  };

  "has the names it was given"_test = [] {
    const auto with_model = [](const std::string& name) { return question("Hi", R"("max_tokens":1,"model":")" + name + "\""); };
    ServerOptions options;
    options.aliases = {"one", "two"};
    const RunningServer named(pebble_with(1), options);
    expect(named.post(kChat, with_model("two")).body.find(R"("model":"one")") != std::string::npos);
    expect(code_of(named.post(kChat, with_model("pebble"))) == "404 model_not_found");
    options.aliases = {"*"};
    const RunningServer any(pebble_with(1), options);
    expect(any.post(kChat, with_model("gpt-9")).body.find(R"("model":"pebble")") != std::string::npos);
  };

  "asks for a key where it has some"_test = [] {
    ServerOptions options;
    options.access.keys = {serve::key_of("me", "abc"), serve::key_of("you", "xyz")};
    options.access.origins = {"https://app.example"};
    RunningServer server(pebble_with(1), options);
    const Reply none = server.post(kChat, kCapital);
    expect(code_of(none) == "401 invalid_api_key" && none.field("WWW-Authenticate") == "Bearer");
    for (const char* path : {"/v1/models", "/metrics", "/slots", "/props"}) expect(server.get(path).status == 401_i) << path;
    expect(server.get("/health").status == 200_i && server.get("/").status == 200_i);
    expect(server.post(kChat, kCapital, "x-api-key: xyz\r\n").status == 200_i);
    expect(server.get("/slots", "Authorization: bearer abc\r\n").status == 200_i);
    expect(code_of(server.post(kChat, kCapital, "x-api-key: xyz\r\nOrigin: https://evil.example\r\n")) == "403 forbidden_origin");
    for (const char* more : {"", R"(,"stream":true)", R"(,"nobody":1)"}) {
      const std::string body = kCapital.substr(0, kCapital.size() - 1) + more + "}";
      const Reply reply = server.post(kChat, body, "x-api-key: xyz\r\nOrigin: https://app.example\r\n");
      expect(reply.field("Access-Control-Allow-Origin") == "https://app.example") << more;
    }
    expect(server.log().find(" you /v1/chat/completions 200 ") != std::string::npos) << server.log();
    expect(server.log().find("xyz") == std::string::npos);
  };
};

const suite<"the queue"> queue = [] {
  "has an end"_test = [] {
    ServerOptions options = impatient();
    options.queue = 1;
    const RunningServer server(pebble_with(1), options);
    RawClient first = holding(server);
    RawClient second = server.sent(serve::post(kChat, kCapital));
    expect(server.has_metric("lapidary_requests_waiting", 1));
    const Reply third = server.post(kChat, kCapital);
    expect(code_of(third) == "429 queue_full" && later(third)) << third.body;
    expect(server.post("/v1/messages", "{}").body.find("rate_limit_error") != std::string::npos);
    first.close();
    expect(content_of(second.reply()) == kOslo);
    expect(server.has_slots("idle"));
    expect(server.metric("lapidary_requests_running") == 0.0_d && server.metric("lapidary_requests_waiting") == 0.0_d);
  };

  "counts all sessions of a request with several choices"_test = [] {
    ServerOptions options = impatient();
    options.queue = 0;
    const RunningServer server(pebble_with(2), options);
    const RawClient both = server.sent(serve::post(kChat, endless(R"("stream":true,"n":2)")));
    expect(server.has_slots("parked parked")) << server.slots();
    expect(code_of(server.post(kChat, kCapital)) == "429 queue_full");
  };

  "has memory for bodies, and for the pictures in them"_test = [] {
    ServerOptions options = impatient();
    options.http.bodies_bytes = 100'000;
    const RunningServer server(pebble_with(1), options);
    const Reply large = server.post("/tokenize", R"({"content":")" + std::string(100'000, 'x') + "\"}");
    expect(code_of(large) == "429 queue_full" && later(large)) << large.body;
    expect(server.post("/tokenize", R"({"content":")" + std::string(90'000, 'x') + "\"}").status == 200_i);
    const std::string picture = R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,)" +
                                text::to_base64(read_all(kRoot + "/models/examples/shapes.png")) + R"("}}]}],"max_tokens":1})";
    expect(picture.size() < options.http.bodies_bytes);
    const Reply seen = server.post(kChat, picture);
    expect(code_of(seen) == "429 queue_full" && seen.body.find("pictures") != std::string::npos) << seen.body;
    expect(content_of(server.post(kChat, kCapital)) == kOslo);
    options.http.bodies_bytes = 2'000'000;
    expect(RunningServer(pebble_with(1), options).post(kChat, picture).status == 200_i);
  };

  "lets nobody wait for ever"_test = [] {
    ServerOptions options = impatient();
    options.queue_timeout_s = kSlowBuild ? 5 : 0.2;
    const RunningServer server(pebble_with(1), options);
    const RawClient first = holding(server);
    const Reply second = server.post(kChat, question("Hi", R"("stream":true)"));
    expect(code_of(second) == "503 queue_timeout" && later(second)) << second.body;
    expect(server.metric(R"(lapidary_cancelled_total{reason="timeout"})") == 1.0_d);
    expect(server.slots() == "parked") << "who runs does not wait";
  };
};

const suite<"an answer"> an_answer = [] {
  "has a time"_test = [] {
    ServerOptions options = impatient();
    options.request_timeout_s = 0.3;
    const RunningServer server(pebble_with(1), options);
    RawClient streamed = server.sent(serve::post(kChat, endless(R"("stream":true)")));
    expect(server.has_metric(R"(lapidary_cancelled_total{reason="timeout"})", 1));
    const std::string all = streamed.rest();
    expect(all.find("--request-timeout") != std::string::npos && all.find("[DONE]") == std::string::npos);
    expect(!all.ends_with("0\r\n\r\n")) << "a part is no whole";
    expect(server.has_slots("idle"));
    expect(code_of(server.post(kChat, endless())) == "408 timeout");
  };

  "comes alone where the client leaves"_test = [] {
    const RunningServer server(pebble_with(1), impatient());
    {
      RawClient first = holding(server);
      RawClient waits = server.sent(serve::post(kChat, kCapital));
      expect(server.has_metric("lapidary_requests_waiting", 1));
      waits.close();
      expect(server.has_metric(R"(lapidary_cancelled_total{reason="client"})", 1));
      expect(server.has_metric("lapidary_requests_waiting", 0));
      expect(server.metric("lapidary_completion_tokens_total") == 0.0_d);
      first.close();
    }
    expect(server.has_slots("idle"));
    expect(server.has_metric(R"(lapidary_cancelled_total{reason="client"})", 2));
    expect(server.has_metric("lapidary_requests_running", 0));
    expect(server.metric("lapidary_completion_tokens_total") > 0.0_d);
    std::string long_text;
    for (int i = 0; i < 1000; ++i) long_text += " stone";
    RawClient reads = server.sent(serve::post(kChat, question(long_text)));
    expect(server.has_metric("lapidary_requests_running", 1));
    reads.reset();
    expect(server.has_slots("idle"));
    expect(server.has_metric(R"(lapidary_cancelled_total{reason="client"})", 3));
    expect(content_of(server.post(kChat, kCapital)) == kOslo);
  };

  "waits for a slow reader, others do not"_test = [] {
    ServerOptions options = impatient();
    options.silence_s = 0.01;
    const RunningServer server(pebble_with(2, kShortContext), options);
    RawClient slow = holding(server, "parked idle");
    for (int i = 0; i < 3; ++i) expect(content_of(server.post(kChat, kCapital)) == kOslo);
    expect(server.slots() == "parked idle");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const Reply late = slow.reply(), at_once = server.post(kChat, endless(R"("stream":true)"));
    const auto text_of = [](const Reply& reply) {
      std::string text;
      for (const text::Value& event : data_of(reply.body))
        if (const text::Value* content = event.find("choices")->array()->front().find("delta")->find("content")) text += *content->string();
      return text;
    };
    expect(late.body.find(": waiting\n\n") != std::string::npos) << "comments, while nothing else is said";
    expect(text_of(late) == text_of(at_once) && text_of(late).size() > kShortContext);
    expect(late.body.ends_with("data: [DONE]\n\n"));
  };

  "is a call or has the format, where both are asked for"_test = [] {
    const RunningServer server(pebble_with(4));
    const std::string more = R"("temperature":1,"max_tokens":60,"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object","properties":{"size":{"type":"integer","minimum":0,"maximum":99}},"required":["size"],"additionalProperties":false}}},"tools":)" +
                             text::to_json(pebble_tools());
    const std::string opener = server.post("/tokenize", R"({"content":"<|tool_call>","parse_special":true})").body;
    const std::string unlikely = R"(,"logit_bias":{")" + opener.substr(11, opener.size() - 13) + R"(":-100})";
    for (const bool calls : {true, false})
      for (int seed = 0; seed < 4; ++seed) {
        const Reply reply = server.post(kChat, question("What is the weather in Oslo?", more + R"(,"seed":)" + std::to_string(seed) + (calls ? "" : unlikely)));
        expect(fatal(reply.status == 200)) << reply.body;
        const text::Value body = text::parse_json(reply.body, "reply");
        const text::Value& choice = body.find("choices")->array()->front();
        const text::Value& message = *choice.find("message");
        expect(*choice.find("finish_reason") == text::Value(calls ? "tool_calls" : "stop")) << reply.body;
        if (calls) expect(message.find("content")->is_null() && !message.find("tool_calls")->array()->empty()) << reply.body;
        else expect(text::parse_json(*message.find("content")->string(), "content").find("size")->integer() != nullptr) << reply.body;
      }
    const Reply none = server.post(kChat, question("What is the weather in Oslo?", more + R"(,"seed":1,"tool_choice":"none")"));
    expect(text::parse_json(content_of(none), "content").find("size") != nullptr) << none.body;
  };

  "names the schema that nothing can be held to"_test = [] {
    const RunningServer server(pebble_with(1));
    const auto param_of = [](const Reply& reply) {
      const text::Value body = text::parse_json(reply.body, "reply");
      return code_of(reply) + " " + text::to_json(*body.find("error")->find("param"));
    };
    const auto formatted = [](const std::string& schema) { return question("Hi", R"("response_format":{"type":"json_schema","json_schema":{"schema":)" + schema + "}}"); };
    expect(param_of(server.post(kChat, formatted(R"({"format":"date","not":{}})"))) == R"(400 unsupported_parameter "response_format.json_schema.schema")");
    expect(param_of(server.post(kChat, formatted(R"({"type":"string","minLength":3,"maxLength":2})"))) == R"(400 invalid_value "response_format.json_schema.schema")");
    const std::string tool = R"("tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"not":{}}}}])";
    expect(param_of(server.post(kChat, question("Hi", tool))) == R"(400 unsupported_parameter "tools")");
    expect(param_of(server.post("/v1/responses", R"({"input":"Hi","text":{"format":{"type":"json_schema","name":"n","schema":{"not":{}}}}})")) ==
           R"(400 unsupported_parameter "text.format.schema")");
  };

  "has several choices, the first of them that of one"_test = [] {
    for (const std::size_t cache_bytes : {std::size_t{0}, std::size_t{16} << 20}) {
      ServerOptions options;
      options.prefix_cache_bytes = cache_bytes;
      const RunningServer server(pebble_with(2), options);
      const std::string body = question("Tell me a story.", R"("temperature":1,"seed":5,"max_tokens":12)");
      const Reply one = server.post(kChat, body), three = server.post(kChat, body.substr(0, body.size() - 1) + R"(,"n":3})");
      const text::Value several = text::parse_json(three.body, "reply");
      expect(several.find("choices")->array()->size() == 3_ul);
      expect(content_of(one) == content_of(three));
      std::set<std::string> contents;
      for (const text::Value& choice : *several.find("choices")->array()) contents.insert(*choice.find("message")->find("content")->string());
      expect(contents.size() == 3_ul) << "the others are others";
      expect(usage_of(one, "prompt_tokens") == usage_of(three, "prompt_tokens"));
      expect(usage_of(three, "completion_tokens") > usage_of(one, "completion_tokens"));
      expect((usage_of(three, "cached_tokens") > 0) == (cache_bytes > 0));
      const Reply prompts = server.post("/v1/completions", R"({"prompt":["One","Two"],"n":2,"seed":1,"max_tokens":3})");
      const text::Value four = text::parse_json(prompts.body, "reply");
      std::string order;
      for (const text::Value& choice : *four.find("choices")->array()) order += text::to_json(*choice.find("index"));
      expect(order == "0123") << order;
    }
  };

  "finds its beginning again, in its own namespace alone"_test = [] {
    const auto cached = [](const RunningServer& server, const std::string& salt, const std::string& key) {
      const std::string body = question("What is the capital of Norway?", R"("max_tokens":2,"temperature":0)" + (salt.empty() ? "" : R"(,"cache_salt":")" + salt + "\""));
      return usage_of(server.post(kChat, body, "x-api-key: " + key + "\r\n"), "cached_tokens");
    };
    ServerOptions options;
    options.access.keys = {serve::key_of("me", "abc"), serve::key_of("you", "xyz")};
    const RunningServer server(pebble_with(1), options);
    expect(cached(server, "", "abc") == 0);
    const auto all = cached(server, "", "abc");
    expect(all > 0) << "the last token alone is computed";
    expect(cached(server, "a", "abc") == 0);
    expect(cached(server, "a", "abc") == all);
    expect(cached(server, "", "xyz") == 0);
    expect(cached(server, "a", "xyz") == 0);
    expect(cached(server, "", "xyz") == all);
    options.shares_prefixes = true;
    const RunningServer shared(pebble_with(1), options);
    expect(cached(shared, "", "abc") == 0 && cached(shared, "", "xyz") == all && cached(shared, "b", "xyz") == 0);
    options.prefix_cache_bytes = 0;
    const RunningServer off(pebble_with(1), options);
    expect(cached(off, "", "abc") == 0 && cached(off, "", "abc") == 0);
  };

  "is counted to the token, cancelled or not"_test = [] {
    RunningServer server(pebble_with(2), impatient());
    std::int64_t prompt = 0, cached = 0, generated = 0;
    for (const std::string& body : {kCapital, question("Tell me a story.", R"("seed":1,"max_tokens":30)"), question("Tell me a story.", R"("seed":2,"max_tokens":9,"n":3)"), kCapital}) {
      const Reply reply = server.post(kChat, body);
      prompt += usage_of(reply, "prompt_tokens");
      cached += usage_of(reply, "cached_tokens");
      generated += usage_of(reply, "completion_tokens");
    }
    expect(server.metric("lapidary_prompt_tokens_total") == static_cast<double>(prompt));
    expect(server.metric("lapidary_prompt_tokens_cached_total") == static_cast<double>(cached));
    expect(server.metric("lapidary_completion_tokens_total") == static_cast<double>(generated));
    holding(server, "parked idle").close();
    expect(server.says("cancelled: client"));
    const std::string log = server.log(), line = log.substr(log.rfind('\n', log.find("cancelled: client")) + 1);
    const std::string counted = line.substr(line.find("generated ") + 10);
    expect(std::stoll(counted) > 0);
    expect(server.metric("lapidary_completion_tokens_total") == static_cast<double>(generated + std::stoll(counted))) << line;
  };

  "has rounds, which are counted by their rows"_test = [] {
    engine::ModelOptions model = pebble_with(1);
    model.draft.tokens = 3;
    const RunningServer drafted(model);
    const Reply reply = drafted.post(kChat, question("Tell me a story.", R"("seed":1,"max_tokens":20)"));
    const text::Value body = text::parse_json(reply.body, "reply");
    const text::Value& details = *body.find("usage")->find("completion_tokens_details");
    const auto drafts = *details.find("accepted_prediction_tokens")->integer() + *details.find("rejected_prediction_tokens")->integer();
    double rounds = 0, rows = 0;
    for (int count = 1; count <= graph::kMaxVerifyRows; ++count) {
      const double played = drafted.metric("lapidary_rounds_total{rows=\"" + std::to_string(count) + "\"}");
      rounds += played;
      rows += played * count;
    }
    expect(drafts > 0 && rows == rounds + static_cast<double>(drafts)) << rows << rounds << drafts;
    expect(drafted.metric("lapidary_round_seconds_count") == rounds);
  };
};

const suite<"draining"> draining = [] {
  "refuses who waits and finishes what runs"_test = [] {
    RunningServer server(pebble_with(1, kShortContext), impatient());
    RawClient runs = holding(server);
    RawClient waits = server.sent(serve::post(kChat, kCapital));
    expect(server.has_metric("lapidary_requests_waiting", 1));
    RawClient late = server.client();
    const std::string request = serve::post(kChat, kCapital);
    late.send(request.substr(0, request.size() - 5));  // its head has come
    expect(server.get("/health").status == 200_i);
    server.drain();
    const Reply refused = waits.reply();
    expect(code_of(refused) == "503 draining" && later(refused)) << refused.body;
    const Reply health = server.get("/health");
    expect(health.status == 503_i && health.body == R"({"status":"draining"})" && later(health));
    expect(code_of(server.post(kChat, kCapital)) == "503 draining");
    late.send(request.substr(request.size() - 5));
    expect(code_of(late.reply()) == "503 draining");
    expect(server.get("/metrics").status == 200_i);
    expect(runs.reply().body.ends_with("data: [DONE]\n\n"));
    expect(server.ends());
    expect(!server.failure());
  };

  "has an end: an error, and no [DONE]"_test = [] {
    ServerOptions options = impatient();
    options.drain_timeout_s = 0.1;
    RunningServer server(pebble_with(1), options);
    RawClient runs = holding(server);
    server.drain();
    const std::string all = runs.rest();
    expect(all.find("it ended before the answer did") != std::string::npos && all.find("[DONE]") == std::string::npos);
    expect(server.ends());
    expect(server.log().find("cancelled: drain") != std::string::npos);
  };
};

}  // namespace
}  // namespace lapidary::test::server_test
