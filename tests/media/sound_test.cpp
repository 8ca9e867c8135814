// Files of sounds and their spectra against the fixtures, and broken ones.
#include <boost/ut.hpp>

#include <cmath>
#include <numbers>

#include "media/sound.hpp"
#include "support/cases.hpp"
#include "support/expected.hpp"
#include "support/random.hpp"
#include "support/sndfile_leak.hpp"

namespace lapidary::test::sound_test {
namespace {

using namespace boost::ut;
using namespace media;

Sound heard(const std::string& path, const SoundLimits& limits = {}) {
  const std::string file = read_text_file(path);
  return decode_sound(bytes_of(file), path, limits);
}

double largest_difference(std::span<const float> a, std::span<const float> b, std::size_t edge = 0) {
  double largest = a.size() == b.size() ? 0 : 1e9;
  for (std::size_t i = edge; i + edge < std::min(a.size(), b.size()); ++i) largest = std::max(largest, std::abs(double{a[i]} - b[i]));
  return largest;
}

// What the files of fixtures/media hold.
float tone(double seconds) {
  const double turn = 2 * std::numbers::pi * seconds;
  return static_cast<float>(0.5 * std::sin(440 * turn) + 0.2 * std::sin(1500 * turn));
}

std::vector<float> tones(std::size_t count) {
  std::vector<float> samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back(tone(static_cast<double>(i) / kSampleRate));
  return samples;
}

// The power of both tones over that of all else, in decibels; nothing where they are not as loud as they should be. When they begin
// does not matter.
double tone_quality(std::span<const float> samples) {
  constexpr std::size_t kFirst = 1600, kCount = 1600;  // whole periods of both
  double power = 0, tones = 0;
  for (std::size_t i = kFirst; i < kFirst + kCount; ++i) power += double{samples[i]} * samples[i];
  for (const auto& [hertz, loudness] : {std::pair{440, 0.5}, {1500, 0.2}}) {
    double sine = 0, cosine = 0;
    for (std::size_t i = kFirst; i < kFirst + kCount; ++i) {
      const double angle = 2 * std::numbers::pi * hertz * static_cast<double>(i) / kSampleRate;
      sine += samples[i] * std::sin(angle), cosine += samples[i] * std::cos(angle);
    }
    if (std::abs(std::hypot(sine, cosine) * 2 / kCount - loudness) > 0.02) return 0;
    tones += (sine * sine + cosine * cosine) * 2 / kCount;
  }
  return 10 * std::log10(tones / std::max(power - tones, 1e-12));
}

// The transform of a frame, as it is defined.
std::vector<double> magnitudes(std::span<const float> samples, std::size_t frame) {
  std::vector<double> bins;
  for (int bin = 0; bin <= 256; ++bin) {
    double real = 0, imaginary = 0;
    for (int j = 0; j < 320; ++j) {
      const auto at = static_cast<std::ptrdiff_t>(frame) * 160 + j - 160;
      const double value = at < 0 ? 0 : samples[static_cast<std::size_t>(at)] * (0.5 - 0.5 * std::cos(2 * std::numbers::pi * j / 320));
      real += value * std::cos(2 * std::numbers::pi * bin * j / 512), imaginary -= value * std::sin(2 * std::numbers::pi * bin * j / 512);
    }
    bins.push_back(std::hypot(real, imaginary));
  }
  return bins;
}

double hertz_of(double band) { return 700 * (std::pow(10.0, 2595 * std::log10(1 + 8000 / 700.0) * band / 129 / 2595) - 1); }

const suite<"sounds"> sounds = [] {
  "every sound of the fixtures has its samples and spectra"_test = [] {
    const Expected expected(kFixtures + "/audio/expected.safetensors");
    simdjson::dom::parser parser;
    std::size_t count = 0;
    for (const auto& [key, of] : simdjson::dom::object(parser.load(kFixtures + "/audio/expected.json"))) {
      const std::string name(key), path = kFixtures + "/audio/" + std::string(std::string_view(of["file"]));
      const Sound sound = heard(path);
      const bool other_rate = name == "stereo-44100";
      expect(!sound.cut && sound.samples.size() == static_cast<std::size_t>(std::int64_t(of["samples"]))) << name << sound.samples.size();
      const auto samples = expected.has(name + ".samples") ? expected.floats(name + ".samples") : std::vector<float>(1600);
      const double difference = largest_difference(sound.samples, samples, other_rate ? 200 : 0);
      expect(difference <= (other_rate ? 6e-4 : 0)) << name << difference;
      expect(sample_rows(sound.samples).size() == static_cast<std::size_t>(std::int64_t(of["soft_tokens_unified"])) * 640) << name;
      expect(spectrum_count(static_cast<std::int64_t>(sound.samples.size())) == std::int64_t(of["mel_frames"])) << name;
      ++count;
      if (std::int64_t(of["mel_frames"]) == 0) {
        const auto error = error_of([&] { spectra(sound.samples, path); });
        expect(error && error->kind == ErrorKind::too_short && error->message().find("expected at least 161 samples") != std::string::npos) << name;
        continue;
      }
      // Of those of an ideal resampler, near-silent bands differ.
      const auto mel = spectra(samples, path);
      expect(largest_difference(mel, expected.floats(name + ".mel")) < 5e-4) << name << largest_difference(mel, expected.floats(name + ".mel"));
    }
    expect(count == 9_ul);
  };

  "spectra are those of the definition"_test = [] {
    Random random(3);
    const auto samples = random.floats(2000, -1, 1);
    const auto mel = spectra(samples, "noise");
    expect(fatal(mel.size() == std::size_t{12 * 128}));
    for (const std::size_t frame : {0, 5, 11}) {
      const auto bins = magnitudes(samples, frame);
      double largest = 0;
      for (int band = 0; band < 128; ++band) {
        const double low = hertz_of(band), middle = hertz_of(band + 1), high = hertz_of(band + 2);
        double sum = 0;
        for (std::size_t bin = 0; bin <= 256; ++bin) {
          const double at = static_cast<double>(bin) * 31.25;
          sum += bins[bin] * std::max(0.0, std::min((at - low) / (middle - low), (high - at) / (high - middle)));
        }
        largest = std::max(largest, std::abs(std::log(sum + 0.001) - mel[frame * 128 + static_cast<std::size_t>(band)]));
      }
      expect(largest < 1e-6) << frame << largest;
    }
  };

  "spectra end after 30 s"_test = [] {
    expect(spectrum_count(160) == 0 && spectrum_count(161) == 1 && spectrum_count(480'000) == 2999 && spectrum_count(480'001) == 2999);
    const std::vector<float> silence(500'000);
    const auto mel = spectra(silence, "silence");
    expect(mel.size() == std::size_t{2999 * 128} && std::ranges::all_of(mel, [](float value) { return value == std::log(0.001f); }));
  };

  "rows of samples end with zeros"_test = [] {
    const auto samples = tones(641);
    const auto rows = sample_rows(samples);
    expect(rows.size() == 1280_ul && std::ranges::equal(std::span(rows).first(641), samples));
    expect(std::ranges::all_of(std::span(rows).subspan(641), [](float value) { return value == 0; }));
  };

  "every format is heard"_test = [] {
    struct Case { const char* name; double least_db; };
    for (const auto& [name, least_db] : {Case{"tone-16000.flac", 80}, {"tone-48000.flac", 80}, {"tone-22050.ogg", 15}, {"tone-48000.opus", 15},
                                         {"tone-44100.mp3", 15}, {"tone-8000-mulaw.wav", 30}}) {
      const Sound sound = heard(kFixtures + "/media/" + name);
      expect(std::abs(static_cast<double>(sound.samples.size()) - 4800) <= 1500) << name << sound.samples.size();
      expect(tone_quality(sound.samples) > least_db) << name << tone_quality(sound.samples);
    }
    const Sound lossless = heard(kFixtures + "/media/tone-16000.flac");
    expect(largest_difference(lossless.samples, tones(4800)) < 1.0 / 32768);
  };

  "a sound is heard up to the limit"_test = [] {
    const std::string path = kFixtures + "/audio/pcm16.wav";  // 1.3 s
    const Sound whole = heard(path), cut = heard(path, {.seconds = 1});
    expect(cut.cut && cut.samples.size() == 16'000_ul && std::ranges::equal(cut.samples, std::span(whole.samples).first(16'000)));
    expect(!heard(path, {.seconds = 2}).cut);
    expect(outcome_of([&] { heard(path, {.bytes = 1000}); }) == "too_large");
  };
};

const suite<"bad sounds"> bad_sounds = [] {
  "every WAV of the manifest"_test = [] {
    const auto cases = cases_about("wav");
    expect(cases.size() == 21_ul);
    for (const Case& bad : cases) {
      const auto error = error_of([&] { heard(bad.path); });
      const bool other = bad.expect == "not_audio" && error && error->kind == ErrorKind::bad_data;  // it begins like Ogg
      expect(other || is_expected(bad, error)) << bad.path << "expected" << bad.expect << (error ? error->message() : "ok") << "\n";
      if (error) expect(error->message().starts_with("[" + bad.path + "] ") && error->message().find(", expected ") != std::string::npos) << error->message();
    }
  };

  "a file cut anywhere or with a byte changed is refused, or numbers"_test = [] {
    for (const char* name : {"/audio/extensible-list.wav", "/media/tone-16000.flac", "/media/tone-22050.ogg", "/media/tone-44100.mp3", "/media/tone-48000.opus"}) {
      const std::string file = read_text_file(kFixtures + name);
      const auto outcome = [&](const std::string& broken) {
        return error_of([&] {
          const Sound sound = decode_sound(bytes_of(broken), name, {.seconds = 2});
          expect(!sound.samples.empty() && sound.samples.size() <= 32'000_ul);
          expect(std::ranges::all_of(sound.samples, [](float value) { return std::isfinite(value); })) << name;
        });
      };
      for (std::size_t size = 0; size < file.size(); size += 1 + file.size() / 61)
        if (const auto error = outcome(file.substr(0, size))) expect(error->message().find(", expected ") != std::string::npos) << error->message();
      for (std::size_t at = 0; at < file.size(); at += 1 + file.size() / 61) {
        std::string broken = file;
        broken[at] ^= static_cast<char>(1 + at % 255);
        outcome(broken);
      }
    }
  };
};

}  // namespace
}  // namespace lapidary::test::sound_test
