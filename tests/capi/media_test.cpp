// Pictures and sounds through the C API: files, and what the caller has decoded.
#include "capi/handles.hpp"

#include <cmath>
#include <cstring>

#include "media/picture.hpp"
#include "support/program.hpp"

namespace lapidary::test::media_test {
namespace {

using namespace boost::ut;

const char* const kPicture = R"([{"role":"user","content":[{"type":"image"},{"type":"text","text":"What is in this picture?"}]}])";
const std::string kShapes = read_all(kRoot + "/models/examples/shapes.png");

lapidary_medium file_of(const std::string& bytes, std::int32_t kind = LAPIDARY_IMAGE_FILE) {
  lapidary_medium medium = LAPIDARY_INIT(lapidary_medium);
  medium.data = bytes.data();
  medium.data_bytes = bytes.size();
  medium.kind = kind;
  return medium;
}

struct Shown : Question {
  std::vector<const lapidary_medium*> list;

  explicit Shown(std::vector<const lapidary_medium*> media, const char* messages = kPicture) : Question(messages), list(std::move(media)) {
    request.media = list.data();
    request.media_count = list.size();
  }
};

std::string refusal_of(lapidary_session* session, lapidary_status expected, const Question& question) {
  lapidary_error error = LAPIDARY_INIT(lapidary_error);
  const lapidary_status status = lapidary_begin(session, &question.request, &error);
  expect(status == expected) << lapidary_status_name(status) << error.message;
  return error.message;
}

const suite<"media of the C API"> media_suite = [] {
  "a picture is one as a file and as pixels"_test = [] {
    const OwnedModel model;
    lapidary_model_info info = LAPIDARY_INIT(lapidary_model_info);
    lapidary_describe(model, &info, Expected());
    expect(info.senses == LAPIDARY_SEES && info.image_tokens == 70_i);

    const lapidary_medium file = file_of(kShapes);
    const OwnedSession session(model);
    const Shown shown({&file});
    lapidary_begin(session, &shown.request, Expected());
    expect(pull_all(session).text == "A yellow diamond and a white diamond.");

    const media::Picture picture = media::decode_picture(std::as_bytes(std::span(kShapes)), "shapes");
    std::vector<std::uint8_t> pixels(picture.rgb.size() + 1);
    std::memcpy(pixels.data() + 1, picture.rgb.data(), picture.rgb.size());  // at any address
    lapidary_medium raw = LAPIDARY_INIT(lapidary_medium);
    raw.data = pixels.data() + 1;
    raw.data_bytes = picture.rgb.size();
    raw.kind = LAPIDARY_PIXELS;
    raw.width = picture.size.width;
    raw.height = picture.size.height;
    const Shown again({&raw});
    lapidary_begin(session, &again.request, Expected());
    expect(pull_all(session).text == "A yellow diamond and a white diamond.");
    std::string json(8192, '\0');
    std::size_t bytes = 0;
    lapidary_statistics(session, json.data(), json.size(), &bytes, Expected());
    expect(json.find(R"("reused_tokens":84)") != std::string::npos) << "the same picture is known again" << json.substr(0, bytes);
  };

  "sizes, kinds and numbers of media are checked"_test = [] {
    const OwnedModel model;
    const OwnedSession session(model);
    const lapidary_medium file = file_of(kShapes);
    const auto refused = [&](lapidary_status expected, auto&& change) {
      lapidary_medium medium = file;
      change(medium);
      return refusal_of(session, expected, Shown({&medium}));
    };
    using Medium = lapidary_medium;
    refused(LAPIDARY_ERROR_USAGE, [](Medium& m) { m.size = 3; });
    refused(LAPIDARY_ERROR_USAGE, [](Medium& m) { m.data = nullptr; });
    refused(LAPIDARY_ERROR_DATA, [](Medium& m) { m.data_bytes = 0; });
    refused(LAPIDARY_ERROR_DATA, [](Medium& m) { m.data_bytes /= 2; });
    for (const std::int32_t kind : {0, 6, -1}) refused(LAPIDARY_ERROR_USAGE, [&](Medium& m) { m.kind = kind; });
    refused(LAPIDARY_ERROR_USAGE, [](Medium& m) { m.image_tokens = 71; });
    refused(LAPIDARY_ERROR_UNSUPPORTED, [](Medium& m) { m.kind = LAPIDARY_AUDIO_FILE; });
    const std::vector<float> silence(16000), loud(16000, INFINITY);
    const auto samples = [&](lapidary_status expected, const std::vector<float>& list, std::size_t bytes) {
      return refused(expected, [&](Medium& m) { m.kind = LAPIDARY_SAMPLES, m.data = list.data(), m.data_bytes = bytes; });
    };
    samples(LAPIDARY_ERROR_UNSUPPORTED, silence, 64000);  // pebble has no ears
    samples(LAPIDARY_ERROR_USAGE, silence, 63999);
    samples(LAPIDARY_ERROR_USAGE, silence, 0);
    samples(LAPIDARY_ERROR_USAGE, loud, 64000);
    const auto pixels = [&](std::int32_t width, std::int32_t height, std::size_t bytes) {
      return refused(LAPIDARY_ERROR_USAGE, [&](Medium& m) { m.kind = LAPIDARY_PIXELS, m.width = width, m.height = height, m.data_bytes = bytes; });
    };
    expect(pixels(0, 4, 0) == "[media[0]] width and height, expected 1 to 65535 and at most 67108864 pixels, got 0 x 4");
    pixels(-1, -1, 3);
    pixels(65536, 1, 3 * 65536);
    pixels(65535, 65535, 3);
    pixels(INT32_MAX, INT32_MAX, 3);
    expect(pixels(2, 2, 11) == "[media[0]] data, expected 3 bytes for each of 4 pixels, got 11");

    expect(refusal_of(session, LAPIDARY_ERROR_DATA, Shown({})) == "[media] images, audio and video, one for each placeholder, expected 1, got 0");
    refusal_of(session, LAPIDARY_ERROR_DATA, Shown({&file, &file}));
    expect(refusal_of(session, LAPIDARY_ERROR_USAGE, Shown({nullptr})) == "[media[0]] expected one, got NULL");
    Shown none({});
    none.request.media = nullptr;
    none.request.media_count = 1;
    refusal_of(session, LAPIDARY_ERROR_USAGE, none);
    Shown ids({&file}, nullptr);
    const Ids prompt = {2, 5};
    ids.request.ids = prompt.data();
    ids.request.id_count = 2;
    expect(refusal_of(session, LAPIDARY_ERROR_USAGE, ids) == "[media] expected messages that have parts for them, got ids");

    const Question question(kCapital);
    lapidary_begin(session, &question.request, Expected());
    expect(pull_all(session).text == "The capital of Norway is Oslo.");
  };
};

}  // namespace
}  // namespace lapidary::test::media_test
