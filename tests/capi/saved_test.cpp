// Sessions in files: another process goes on with the same tokens, and what is damaged or belongs elsewhere is refused.
#include "capi/handles.hpp"

#include "checkpoint/sha256.hpp"
#include "support/program.hpp"

namespace lapidary::test::saved_test {
namespace {

using namespace boost::ut;

std::string joined(const Ids& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += std::to_string(id) + "\n";
  return text;
}

// A model with something said, and that in a file.
struct Saved {
  explicit Saved(lapidary_model_options options = small_options(2)) : model(options), session(model) {
    Question story(kStory);
    generate(session, story.endless(11, 40));
    said = tokens_of(session);
    lapidary_save(session, path.c_str(), Expected());
  }

  TemporaryFolder folder;
  const std::string path = folder.path("session");
  OwnedModel model;
  OwnedSession session;
  Ids said;
};

Ids with(Ids ids, std::int32_t last) {
  ids.push_back(last);
  return ids;
}

const suite<"saved sessions"> saved = [] {
  "another session goes on with the same tokens, and computes none again"_test = [] {
    const Saved saved;
    expect(!std::filesystem::exists(saved.path + ".partial"));
    const OwnedSession session(saved.model);
    lapidary_restore(session, saved.path.c_str(), Expected());
    expect(tokens_of(session) == saved.said);
    Question more(with(saved.said, 100));
    more.endless(12, 30);
    expect(generate(session, more) == generate(saved.session, more));

    // Wherever it fits.
    const Ids expected = generate(saved.session, more);
    for (const std::int32_t context : {512, 64, 32}) {
      lapidary_model_options options = small_options();
      options.context_tokens = context;
      const OwnedModel other(options);
      const OwnedSession there(other);
      const lapidary_status status = lapidary_restore(there, saved.path.c_str(), nullptr);
      expect(status == (context == 32 ? LAPIDARY_ERROR_DATA : LAPIDARY_OK)) << context << status;
      if (context == 512) expect(generate(there, more) == expected);
    }
  };

  "another process goes on with the same tokens"_test = [] {
    const Saved saved;
    const Outcome restored = shell(std::string(LAPIDARY_RESTORER) + " " + kPebble + " " + saved.path);
    expect(restored.status == 0_i) << restored.err;
    Question more(with(saved.said, 100));
    more.request.max_tokens = 20;
    expect(restored.out == joined(generate(saved.session, more))) << restored.out;
  };

  "an empty session can be saved, too"_test = [] {
    const OwnedModel model(2);
    const OwnedSession session(model), other(model);
    const TemporaryFolder folder;
    lapidary_save(session, folder.path("session").c_str(), Expected());
    generate(other, Question(kCapital));
    lapidary_restore(other, folder.path("session").c_str(), Expected());
    expect(tokens_of(other).empty());
  };

  "a file of something else is refused and changes nothing"_test = [] {
    const Saved saved;
    const auto refused = [](lapidary_model* model, const std::string& path, lapidary_status expected, const std::string& mentions) {
      const OwnedSession session(model);
      generate(session, Question(kCapital));
      const Ids before = tokens_of(session);
      lapidary_error error = LAPIDARY_INIT(lapidary_error);
      const lapidary_status status = lapidary_restore(session, path.c_str(), &error);
      expect(status == expected && std::string(error.message).find(mentions) != std::string::npos) << error.message;
      expect(tokens_of(session) == before);
    };
    lapidary_model_options fast = small_options();
    fast.numeric = LAPIDARY_NUMERIC_FAST;
    refused(OwnedModel(fast), saved.path, LAPIDARY_ERROR_DATA, "numeric, expected \"fast\", got \"exact\"");
    lapidary_model_options coded = small_options();
    coded.kv = LAPIDARY_KV_Q8;
    refused(OwnedModel(coded), saved.path, LAPIDARY_ERROR_DATA, "kv, expected \"q8\", got \"f32\"");

    // The same model with one weight changed.
    std::filesystem::copy(kPebble, saved.folder.path("pebble"));
    const std::string weights = saved.folder.path("pebble/model.safetensors");
    std::string bytes = read_all(weights);
    bytes[bytes.size() - 2] ^= 1;
    saved.folder.write("pebble/model.safetensors", bytes);
    const lapidary_model_options options = small_options();
    lapidary_model* tuned = nullptr;
    lapidary_load(saved.folder.path("pebble").c_str(), &options, &tuned, Expected());
    refused(tuned, saved.path, LAPIDARY_ERROR_DATA, "checkpoint, expected ");
    lapidary_free_model(tuned, Expected());

    refused(saved.model, kPebble + "/config.json", LAPIDARY_ERROR_DATA, "expected a session that lapidary has saved");
    refused(saved.model, "/nowhere", LAPIDARY_ERROR_IO, "");
    refused(saved.model, saved.folder.path(), LAPIDARY_ERROR_IO, "");
    expect(lapidary_save(saved.session, "/nowhere/at/all", nullptr) == LAPIDARY_ERROR_IO);
    expect(lapidary_save(saved.session, nullptr, nullptr) == LAPIDARY_ERROR_USAGE);
  };

  "damage anywhere is found"_test = [] {
    const Saved saved;
    const std::string whole = read_all(saved.path);
    const OwnedSession session(saved.model);
    const auto status_of = [&](const std::string& bytes) {
      saved.folder.write("damaged", bytes);
      return lapidary_restore(session, saved.folder.path("damaged").c_str(), nullptr);
    };
    expect(status_of(whole) == LAPIDARY_OK);
    for (std::size_t i = 0; i < 60; ++i) {
      std::string damaged = whole;
      const std::size_t at = i < 30 ? i * 40 : (whole.size() - 1) * (i - 30) / 29;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << i % 8));
      expect(status_of(damaged) == LAPIDARY_ERROR_DATA) << at;
    }
    for (const std::size_t length : {std::size_t{0}, std::size_t{5}, std::size_t{80}, std::size_t{90}, std::size_t{500}, whole.size() - 1})
      expect(status_of(whole.substr(0, length)) == LAPIDARY_ERROR_DATA) << length;
    expect(status_of(whole + "x") == LAPIDARY_ERROR_DATA);
    expect(tokens_of(session).empty()) << "K/V that do not fit their checksum are not used";
    lapidary_restore(session, saved.path.c_str(), Expected());
    expect(tokens_of(session) == saved.said);
  };

  // Whoever writes a header writes its checksum, too.
  "a header of lies is refused"_test = [] {
    const Saved saved;
    const std::string whole = read_all(saved.path);
    std::uint64_t length = 0;
    std::memcpy(&length, whole.data() + 80, sizeof length);
    const std::string header = whole.substr(88, length);
    const OwnedSession session(saved.model);
    const auto status_with = [&](const std::string& changed) {
      const std::uint64_t changed_length = changed.size();
      std::string bytes = whole.substr(0, 16) + sha256_hex(bytes_of(changed));
      bytes.append(reinterpret_cast<const char*>(&changed_length), sizeof changed_length);
      saved.folder.write("lying", bytes + changed + whole.substr(88 + length));
      return lapidary_restore(session, saved.folder.path("lying").c_str(), nullptr);
    };
    const auto replaced = [&](const std::string& from, const std::string& to) {
      std::string changed = header;
      const std::size_t at = changed.find(from);
      expect(fatal(at != std::string::npos)) << from << "in" << header;
      return status_with(changed.replace(at, from.size(), to));
    };
    expect(status_with(header) == LAPIDARY_OK);
    expect(replaced("\"tokens\":[2,", "\"tokens\":[-2,") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"tokens\":[2,", "\"tokens\":[8192,") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"tokens\":[2,", "\"tokens\":[2.5,") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"tokens\":[2,", "\"tokens\":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"written\":", "\"written\":9") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"written\":", "\"written\":-") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"prompt_length\":", "\"prompt_length\":9") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"rings\":[", "\"rings\":[64,") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"version\":2", "\"version\":1") == LAPIDARY_ERROR_DATA);
    const auto with_block = [&](const std::string& block) { return replaced("\"soft\":[]", "\"soft\":" + block); };
    expect(with_block(R"([{"begin":1,"end":3,"image":true,"content":"a"},{"begin":3,"end":4,"image":false,"content":"b"}])") == LAPIDARY_OK);
    expect(with_block(R"([{"begin":1,"end":3,"image":true,"content":"a"},{"begin":2,"end":4,"image":true,"content":"b"}])") == LAPIDARY_ERROR_DATA);
    for (const char* block : {"{}", "[7]", R"([{"begin":-1,"end":3,"image":true,"content":"a"}])", R"([{"begin":3,"end":3,"image":true,"content":"a"}])",
                              R"([{"begin":999,"end":1000,"image":true,"content":"a"}])", R"([{"begin":1,"end":3,"image":true,"content":7}])",
                              R"([{"begin":1,"end":3,"image":true}])"})
      expect(with_block(block) == LAPIDARY_ERROR_DATA) << block;
    expect(replaced("\"kv\":\"f32\"", "\"kv\":\"q4\"") == LAPIDARY_ERROR_DATA);
    expect(replaced("\"sha256\"", "\"sha512\"") == LAPIDARY_ERROR_DATA);
    expect(status_with("[]") == LAPIDARY_ERROR_DATA && status_with("") == LAPIDARY_ERROR_DATA && status_with("{") == LAPIDARY_ERROR_DATA);
  };
};

}  // namespace
}  // namespace lapidary::test::saved_test
