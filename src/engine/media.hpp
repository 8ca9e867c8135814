// Pictures, sounds and videos of a prompt, as the towers of its model take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "decode/soft.hpp"
#include "graph/graph.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"
#include "media/picture.hpp"
#include "text/placeholders.hpp"
#include "text/tokenizer.hpp"

namespace lapidary::engine {

// What a tower takes at once: a picture, a frame of a video or a sound.
struct Percept {
  graph::Sense sense{};
  std::int32_t rows = 0, columns = 0;  // of patches; a sound has one column of frames
  std::int32_t soft_tokens = 0;
  media::Picture picture{};            // what is seen, in the size that the tower takes
  std::vector<float> frames{};         // what is heard: [rows, input width of the tower]
  std::string content{};               // the SHA-256 of that
};
using Percepts = std::vector<std::shared_ptr<const Percept>>;

struct Medium {
  text::Media::Kind kind{};
  Percepts percepts{};                  // one; of a video one for each frame
  std::vector<double> frame_seconds{};  // of a video: when they are shown

  // From the bytes of a file, or from what was decoded elsewhere. Fails with `where` for what is no such medium, and where the graph has
  // no tower for it. `budget`: the most soft tokens of a picture, one of media::kBudgets.
  static Medium image(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where, std::int32_t budget);
  static Medium image(const graph::Graph& graph, const media::Picture& picture, std::string_view where, std::int32_t budget);
  static Medium audio(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where);
  static Medium audio(const graph::Graph& graph, std::span<const float> samples, std::string_view where);  // of media::kSampleRate
  static Medium video(const graph::Graph& graph, std::span<const std::byte> file, std::string_view where);

  text::Media announced() const;  // what the template's placeholder becomes
};

Percepts percepts_of(std::span<const Medium> media);

// Its soft tokens, [soft_tokens, hidden]. `tower`, where it is wanted: the rows before the projector, [soft_tokens, tower width]. Takes a
// while; no run may be in flight.
std::vector<float> perceive(const graph::Graph& graph, link::Executor& executor, const Percept& percept, std::vector<float>* tower = nullptr);

// The ids of the tokens that announce soft ones; -1 = there is none.
struct SoftIds {
  std::int32_t image = -1, audio = -1, video = -1;

  static SoftIds of(const text::Tokenizer& tokenizer);
  static SoftIds of_config(const std::string& folder);  // as config.json has them
};

// Places of soft tokens: the same announcing id, over and over.
struct SoftRun {
  std::int32_t begin = 0, end = 0;
  graph::Sense sense{};
};
std::vector<SoftRun> soft_runs(std::span<const std::int32_t> ids, const SoftIds& soft_ids);
// Each run is for the next percept, must be of its kind and as long as that has soft tokens.
std::vector<decode::SoftBlock> blocks_of(std::span<const SoftRun> runs, const Percepts& percepts);

// Fails where an image is larger than what the plan has room for: in its tower, or in a chunk that has the whole of it.
void check_sizes(const link::Program& program, std::span<const decode::SoftBlock> blocks);

// The budget of pictures that a checkpoint was made for: of processor_config.json, preprocessor_config.json or config.json; Gemma 4's
// own where none of them names one.
std::int32_t read_image_budget(const std::string& folder);
// One of media::kBudgets.
void check_image_budget(std::int32_t budget, std::string_view where);

}  // namespace lapidary::engine
