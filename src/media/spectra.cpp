// The logarithms of mel bands: frames of 20 ms every 10 ms, the magnitudes of their Fourier transform, triangles over these.
#include <array>
#include <cmath>
#include <complex>
#include <numbers>
#include <string>

#include "checkpoint/error.hpp"
#include "media/sound.hpp"

namespace lapidary::media {

namespace {

constexpr std::size_t kStep = 160, kFrame = 320, kTransform = 512, kBins = kTransform / 2 + 1;
constexpr std::size_t kHalfTransform = kTransform / 2;
constexpr double kFloor = 0.001;  // of what the logarithm is taken of

using Complex = std::complex<double>;

// A product of numbers that are known to be finite: the standard's looks for infinities.
Complex times(Complex a, Complex b) { return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()}; }

// Triangles of equal width on the mel scale, from 0 Hz to half the sample rate.
struct Band {
  std::size_t first = 0;
  std::vector<double> weights{};  // of the bins from the first on that it is not zero for
};

struct Tables {
  std::array<double, kFrame> window;                  // Hann's, periodic
  std::array<Complex, kHalfTransform> roots;          // e^(-2πi k / kTransform)
  std::array<std::uint8_t, kHalfTransform> reversed;  // the bits of a number, back to front
  std::array<Band, kMelBands> bands;

  Tables() {
    constexpr double kTurn = 2 * std::numbers::pi;
    for (std::size_t i = 0; i < kFrame; ++i) window[i] = 0.5 - 0.5 * std::cos(kTurn * static_cast<double>(i) / kFrame);
    for (std::size_t i = 0; i < kHalfTransform; ++i) roots[i] = std::polar(1.0, -kTurn * static_cast<double>(i) / kTransform);
    for (std::size_t i = 0; i < kHalfTransform; ++i) reversed[i] = static_cast<std::uint8_t>((i > 0 ? reversed[i / 2] / 2 : 0) | (i % 2) << 7);
    const double top = 2595 * std::log10(1 + kSampleRate / 2 / 700.0);
    const auto corner = [&](std::size_t i) { return 700 * (std::pow(10, top * static_cast<double>(i) / (kMelBands + 1) / 2595) - 1); };
    for (std::size_t i = 0; i < kMelBands; ++i) {
      const double low = corner(i), middle = corner(i + 1), high = corner(i + 2);
      for (std::size_t bin = 0; bin < kBins; ++bin) {
        const double hertz = static_cast<double>(bin) * kSampleRate / kTransform;
        const double weight = std::min((hertz - low) / (middle - low), (high - hertz) / (high - middle));
        if (weight <= 0) continue;
        if (bands[i].weights.empty()) bands[i].first = bin;
        bands[i].weights.push_back(weight);
      }
    }
  }
};

// The transform of as many complex numbers as half the real ones, in place. They come in the order of `reversed`.
void transform(std::array<Complex, kHalfTransform>& values, const Tables& tables) {
  for (std::size_t half = 1; half < kHalfTransform; half *= 2)
    for (std::size_t begin = 0; begin < kHalfTransform; begin += 2 * half)
      for (std::size_t i = 0; i < half; ++i) {
        const Complex low = values[begin + i], high = times(values[begin + half + i], tables.roots[i * (kHalfTransform / half)]);
        values[begin + i] = low + high;
        values[begin + half + i] = low - high;
      }
}

// frame: [kFrame], zeros follow. Even samples are the real parts and odd ones the imaginary parts of half as many numbers, whose
// transform is taken apart again.
std::array<double, kBins> magnitudes(const std::array<double, kFrame>& frame, const Tables& tables) {
  std::array<Complex, kHalfTransform> values{};
  for (std::size_t i = 0; i < kFrame / 2; ++i) values[tables.reversed[i]] = {frame[2 * i], frame[2 * i + 1]};
  transform(values, tables);
  std::array<double, kBins> out;
  for (std::size_t bin = 0; bin < kBins; ++bin) {
    const Complex here = values[bin % kHalfTransform], mirrored = std::conj(values[(kHalfTransform - bin) % kHalfTransform]);
    const Complex root = bin < kHalfTransform ? tables.roots[bin] : Complex(-1);
    const Complex even = (here + mirrored) * 0.5, odd = times((here - mirrored) * 0.5, Complex(0, -1));
    const Complex sum = even + times(root, odd);
    out[bin] = std::sqrt(sum.real() * sum.real() + sum.imag() * sum.imag());
  }
  return out;
}

}  // namespace

std::vector<float> spectra(std::span<const float> samples, std::string_view where) {
  static const Tables tables;
  const auto count = static_cast<std::size_t>(spectrum_count(static_cast<std::int64_t>(samples.size())));
  if (count == 0)
    fail(ErrorKind::too_short, std::string(where),
         "sound, expected at least " + std::to_string(kStep + 1) + " samples of 16 kHz, got " + std::to_string(samples.size()));
  std::vector<float> out(count * kMelBands);
  for (std::size_t i = 0; i < count; ++i) {
    // As if kStep zeros came first.
    std::array<double, kFrame> frame;
    for (std::size_t j = 0; j < kFrame; ++j) frame[j] = i * kStep + j < kStep ? 0 : samples[i * kStep + j - kStep] * tables.window[j];
    const auto bins = magnitudes(frame, tables);
    for (std::size_t b = 0; b < kMelBands; ++b) {
      const Band& band = tables.bands[b];
      double sum = 0;
      for (std::size_t k = 0; k < band.weights.size(); ++k) sum += band.weights[k] * bins[band.first + k];
      out[i * kMelBands + b] = static_cast<float>(std::log(sum + kFloor));
    }
  }
  return out;
}

}  // namespace lapidary::media
