// WAV, FLAC, Ogg and MP3 through libsndfile; other rates than ours through soxr.
#include <sndfile.h>
#include <soxr.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>

#include "media/decoders.hpp"

namespace lapidary::media {

namespace {

constexpr int kMinRate = 1000, kMaxRate = 384'000;  // samples per second
constexpr int kMaxChannels = 64;
constexpr float kLoudest = 32768;  // of a sample: floats that are not scaled are borne

struct Source {
  Bytes file;
  sf_count_t at = 0;
};

sf_count_t length(void* user) { return static_cast<sf_count_t>(static_cast<Source*>(user)->file.size()); }
sf_count_t tell(void* user) { return static_cast<Source*>(user)->at; }

sf_count_t seek(sf_count_t offset, int from, void* user) {
  auto& source = *static_cast<Source*>(user);
  const sf_count_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? source.at : length(user);
  // Neither before the beginning nor beyond the end.
  source.at = std::clamp<sf_count_t>(offset > 0 && base > length(user) - offset ? length(user) : base + offset, 0, length(user));
  return source.at;
}

sf_count_t read(void* out, sf_count_t count, void* user) {
  auto& source = *static_cast<Source*>(user);
  const sf_count_t taken = std::clamp<sf_count_t>(count, 0, length(user) - source.at);
  std::memcpy(out, source.file.data() + source.at, static_cast<std::size_t>(taken));
  source.at += taken;
  return taken;
}

struct Close {
  void operator()(SNDFILE* file) const { sf_close(file); }
  void operator()(soxr* resampler) const { soxr_delete(resampler); }
};

// To kSampleRate, piece by piece.
class Resampler {
 public:
  Resampler(int rate, std::string_view where, std::vector<float>& out) : rate_(rate), where_(where), out_(out) {
    if (rate == kSampleRate) return;
    soxr_error_t error = nullptr;
    const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
    soxr_.reset(soxr_create(rate, kSampleRate, 1, &error, nullptr, &quality, nullptr));
    check(error);
  }

  void add(std::span<const float> samples) {
    in_ += static_cast<std::int64_t>(samples.size());
    if (soxr_) pass(samples.data(), samples.size());
    else out_.insert(out_.end(), samples.begin(), samples.end());
  }
  void finish() {
    if (!soxr_) return;
    pass(nullptr, 0);
    // As many as the time that there were samples for.
    out_.resize(static_cast<std::size_t>((in_ * kSampleRate + rate_ / 2) / rate_));
  }

 private:
  void pass(const float* samples, std::size_t count) {
    for (std::size_t taken = 0, made = 1; made > 0 || taken < count;) {
      std::array<float, 4096> piece;
      std::size_t used = 0;
      check(soxr_process(soxr_.get(), samples ? samples + taken : nullptr, count - taken, &used, piece.data(), piece.size(), &made));
      taken += used;
      out_.insert(out_.end(), piece.begin(), piece.begin() + static_cast<std::ptrdiff_t>(made));
    }
  }
  void check(soxr_error_t error) const {
    if (error) refuse(ErrorKind::bad_data, where_, "sound", error);
  }

  int rate_;
  std::string_view where_;
  std::vector<float>& out_;
  std::int64_t in_ = 0;
  std::unique_ptr<soxr, Close> soxr_{};
};

void check_number(std::int64_t value, std::int64_t least, std::int64_t most, const char* what, std::string_view where) {
  if (value >= least && value <= most) return;
  const std::string range = least == most ? std::to_string(least) : std::to_string(least) + " to " + std::to_string(most);
  fail(ErrorKind::bad_value, std::string(where), std::string(what) + ", expected " + range + ", got " + std::to_string(value));
}

void check_format(std::int64_t rate, std::int64_t channels, std::string_view where) {
  check_number(rate, kMinRate, kMaxRate, "samples per second", where);
  check_number(channels, 1, kMaxChannels, "channels", where);
}

// What a WAV file says about its samples, where libsndfile would believe one number and pass over another that contradicts it.
void check_wav(Bytes file, std::string_view where) {
  const auto number = [&](std::size_t at, std::size_t bytes) {
    std::uint32_t value = 0;
    while (bytes-- > 0) value = value << 8 | std::to_integer<std::uint32_t>(file[at + bytes]);
    return value;
  };
  constexpr std::size_t kHead = 8, kLeast = 16, kExtensible = 26;  // bytes: of a chunk's head, of this chunk, up to its true format
  std::size_t at = 12;
  while (at + kHead <= file.size() && std::memcmp(file.data() + at, "fmt ", 4) != 0)
    at += kHead + number(at + 4, 4) + number(at + 4, 1) % 2;
  if (at + kHead + kLeast > file.size() || number(at + 4, 4) < kLeast) refuse(ErrorKind::bad_data, where, "WAV", "no format");
  std::uint32_t tag = number(at + 8, 2);
  constexpr std::uint32_t kPcm = 1, kFloat = 3, kALaw = 6, kMuLaw = 7, kSeeBelow = 0xfffe;
  if (tag == kSeeBelow && at + kHead + kExtensible <= file.size()) tag = number(at + 32, 2);
  if (tag != kPcm && tag != kFloat && tag != kALaw && tag != kMuLaw)
    fail(ErrorKind::unsupported, std::string(where), "format of samples, expected whole numbers (1), floats (3), A-law (6) or mu-law (7), got " + std::to_string(tag));
  const std::uint32_t channels = number(at + 10, 2), bits = number(at + 22, 2);
  check_format(number(at + 12, 4), channels, where);
  if (bits % 8 != 0 || bits < 8 || bits > 64)
    fail(ErrorKind::unsupported, std::string(where), "bits of a sample, expected 8, 16, 24, 32 or 64, got " + std::to_string(bits));
  const std::uint32_t together = channels * bits / 8;
  check_number(number(at + 20, 2), together, together, "bytes of a sample of each channel", where);
}

}  // namespace

Sound decode_sndfile(Bytes file, std::string_view where, const SoundLimits& limits) {
  if (std::memcmp(file.data(), "RIFF", 4) == 0) check_wav(file, where);
  Source source{file};
  SF_VIRTUAL_IO io{length, seek, read, nullptr, tell};
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, Close> sound(sf_open_virtual(&io, SFM_READ, &info, &source));
  if (!sound) refuse(ErrorKind::bad_data, where, "sound", sf_strerror(nullptr));
  check_format(info.samplerate, info.channels, where);
  Sound heard;
  Resampler resampler(info.samplerate, where, heard.samples);
  const auto channels = static_cast<std::size_t>(info.channels);
  constexpr std::size_t kPiece = 4096;  // frames: a sample of each channel
  std::vector<float> frames(kPiece * channels), mono(kPiece);
  std::int64_t left = std::int64_t{limits.seconds} * info.samplerate;
  while (const sf_count_t got = sf_readf_float(sound.get(), frames.data(), kPiece)) {
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(got, left));
    heard.cut = static_cast<sf_count_t>(count) < got;
    if (count == 0) break;
    left -= static_cast<std::int64_t>(count);
    for (std::size_t i = 0; i < count; ++i) {
      double sum = 0;
      for (std::size_t c = 0; c < channels; ++c) sum += frames[i * channels + c];
      mono[i] = static_cast<float>(sum / static_cast<double>(channels));
      if (!(std::abs(mono[i]) <= kLoudest))
        fail(ErrorKind::not_finite, std::string(where), "sample, expected a number of about -1 to 1, got " + std::to_string(mono[i]));
    }
    resampler.add({mono.data(), count});
  }
  if (sf_error(sound.get()) != SF_ERR_NO_ERROR) refuse(ErrorKind::bad_data, where, "sound", sf_strerror(sound.get()));
  resampler.finish();
  if (heard.samples.empty()) fail(ErrorKind::too_short, std::string(where), "sound, expected at least one sample, got none");
  return heard;
}

}  // namespace lapidary::media
