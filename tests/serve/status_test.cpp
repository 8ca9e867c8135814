// What a server says of itself.
#include <boost/ut.hpp>

#include "engine/pebble.hpp"
#include "serve/requests.hpp"
#include "serve/status.hpp"

namespace lapidary::test::status_test {
namespace {

using namespace boost::ut;
using namespace serve;

const suite<"status"> status = [] {
  "lists every name of the model, not the one for all"_test = [] {
    Facts facts = some_facts();
    facts.names = {"pebble", "small", "*"};
    expect(models_body(facts, 5) == R"({"object":"list","data":[{"id":"pebble","object":"model","created":5,"owned_by":"lapidary"},{"id":"small","object":"model","created":5,"owned_by":"lapidary"}]})");
    expect(model_body(facts, "small", 5) == R"({"id":"small","object":"model","created":5,"owned_by":"lapidary"})");
    for (const char* name : {"large", "*", "Small", "small "}) expect(verdict_of([&] { model_body(facts, name, 5); }) == "model model_not_found") << name;
    expect(refusal_from([&] { model_body(facts, "secret", 5); })->message.find("secret") == std::string::npos);
  };

  "says what slots do, and no word of their texts"_test = [] {
    const std::string body = slots_body({{}, {.state = SlotStatus::State::decode, .past_tokens = 9, .generated_tokens = 4, .age_s = 1.5}, {.state = SlotStatus::State::parked}, {.state = SlotStatus::State::prompt}}, 256);
    expect(body.starts_with(R"([{"id":0,"is_processing":false,"state":"idle","n_ctx":256,"n_past":0,"n_generated":0,"age_s":0.0},{"id":1,"is_processing":true,"state":"decode","n_ctx":256,"n_past":9,"n_generated":4,"age_s":1.5},)")) << body;
    expect(body.find(R"("state":"parked")") != body.npos && body.find(R"("state":"prompt")") != body.npos);
  };

  "names backend, build and drafter"_test = [] {
    engine::Model model(pebble_options(2));
    ServerOptions options;
    options.queue = 7;
    options.thinks = true;
    const text::Value props = text::parse_json(props_body(model, some_facts(), options, "9.9"), "props");
    const auto at = [&](const char* name) { return text::to_json(*props.find(name)); };
    expect(at("model") == "\"pebble\"" && at("n_ctx") == "256" && at("total_slots") == "2" && at("queue_limit") == "7" && at("build") == "\"9.9\"");
    expect(at("max_body_bytes") == std::to_string(32 << 20));
    expect(at("modalities") == R"({"vision":true,"audio":false})");
    expect(at("backend") == "\"cpu\"");
    expect(text::to_json(*props.find("default_generation_settings")->find("thinking")) == "true");
    const text::Value::Array& drafters = *props.find("drafters")->array();
    expect(fatal(drafters.size() == 2u));
    expect(text::to_json(*drafters[1].find("kind")) == "\"dflash\"" && text::to_json(*drafters[1].find("name")) == "\"pebble-dflash\"");
    const text::Value& drafter = drafters[0];
    expect(text::to_json(*drafter.find("kind")) == "\"mtp\"" && text::to_json(*drafter.find("name")) == "\"pebble-assistant\"");
    expect(drafter.find("sha256")->find("model.safetensors") != nullptr);

    engine::ModelOptions plain = pebble_options();
    plain.draft.kind = engine::DraftKind::none;
    engine::Model alone(plain);
    const std::string body = props_body(alone, some_facts(), options, "9.9");
    expect(body.find(R"("drafters":[{"kind":"none","name":null,"sha256":null,"why":"drafts are switched off"}])") != body.npos) << body;
    expect(fingerprint_of(model, "1") == fingerprint_of(alone, "1")) << "drafts change no byte";
    expect(fingerprint_of(model, "1") != fingerprint_of(model, "2"));
  };
};

}  // namespace
}  // namespace lapidary::test::status_test
