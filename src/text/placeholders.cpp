#include "text/placeholders.hpp"

#include <array>
#include <utility>

#include "checkpoint/error.hpp"

namespace lapidary::text {

namespace {

constexpr std::array<std::string_view, 3> kPlaceholders = {"<|image|>", "<|audio|>", "<|video|>"};  // by Media::Kind

std::string repeated(std::string_view token, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += token;
  return text;
}

std::string two_digits(long number) { return (number < 10 ? "0" : "") + std::to_string(number); }

struct Found {
  std::size_t at = std::string_view::npos;
  std::size_t kind = 0;
};

Found first_placeholder(std::string_view text, std::size_t from) {
  Found first;
  for (std::size_t kind = 0; kind < kPlaceholders.size(); ++kind) {
    const std::size_t at = text.find(kPlaceholders[kind], from);
    if (at < first.at) first = {at, kind};
  }
  return first;
}

[[noreturn]] void reject(std::string_view what, std::size_t expected, std::size_t got) {
  fail(ErrorKind::bad_value, "media",
       std::string(what) + ", expected " + std::to_string(expected) + ", got " + std::to_string(got));
}

}  // namespace

std::string expansion(const Media& media) {
  switch (media.kind) {
    case Media::Kind::image: return "<|image>" + repeated("<|image|>", media.soft_tokens) + "<image|>";
    case Media::Kind::audio: return "<|audio>" + repeated("<|audio|>", media.soft_tokens) + "<audio|>";
    case Media::Kind::video: break;
  }
  std::string text;
  for (const double time_s : media.frame_seconds) {
    const auto seconds = static_cast<long>(time_s);
    text += (text.empty() ? "" : " ") + two_digits(seconds / 60) + ":" + two_digits(seconds % 60);
    text += " <|image>" + repeated("<|video|>", media.soft_tokens) + "<image|>";  // video has no brackets of its own
  }
  return text;
}

std::vector<Span> expand_placeholders(std::span<const Span> prompt, std::span<const Media> media) {
  std::vector<Span> expanded;
  std::size_t used = 0;
  for (const Span& span : prompt) {
    if (span.specials == Specials::as_text) {
      expanded.push_back(span);
      continue;
    }
    Span out{"", Specials::recognise};
    std::size_t from = 0;
    for (Found found; (found = first_placeholder(span.text, from)).at != std::string_view::npos; ++used) {
      if (used == media.size()) reject("images, audio and video, one for each placeholder", used + 1, used);
      if (static_cast<std::size_t>(media[used].kind) != found.kind) {
        fail(ErrorKind::bad_value, "media",
             "item " + std::to_string(used) + ", expected one for " + std::string(kPlaceholders[found.kind]) +
                 ", got one for " + std::string(kPlaceholders[static_cast<std::size_t>(media[used].kind)]));
      }
      out.text.append(span.text, from, found.at - from).append(expansion(media[used]));
      from = found.at + kPlaceholders[found.kind].size();
    }
    out.text.append(span.text, from);
    expanded.push_back(std::move(out));
  }
  if (used != media.size()) reject("images, audio and video, one for each placeholder", used, media.size());
  return expanded;
}

}  // namespace lapidary::text
