// Prompts as token ids, with files for the places of soft tokens among them: for commands that are compared with other engines.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/model.hpp"
#include "decode/soft.hpp"
#include "link/executor.hpp"
#include "link/link.hpp"

namespace lapidary::cli {

struct IdPrompt {
  std::vector<std::int32_t> ids;
  std::vector<std::string> images{}, audio{};
  std::int32_t image_tokens = 0;  // 0 = the checkpoint's own
};

inline constexpr const char* kIdPromptsHelp =
    "JSON list of prompts: lists of token ids, or {\"ids\": [...], \"images\": [\"a.png\"], \"audio\": [\"b.wav\"], \"image_tokens\": 70}";

std::vector<IdPrompt> read_id_prompts(const std::string& path);
// A context for the longest of them and so many tokens more, unless one was asked for, and for their largest picture; `folder`: of the checkpoint.
void make_room(ModelFlags& model, const std::vector<IdPrompt>& prompts, const std::string& folder, std::int32_t more_tokens);

// What the towers made of a prompt's files.
struct Perceived {
  std::vector<decode::SoftBlock> blocks{};
  std::vector<std::vector<float>> soft{};       // by block
  std::vector<std::span<const float>> rows{};   // the same

  decode::SoftTokens soft_tokens() const { return {blocks, rows}; }
};
// `see` is told of each file, "image0": its rows before the projector, where there are any, and its soft tokens.
using SeeFile = std::function<void(const std::string& label, std::size_t tokens, const std::vector<float>& tower, const std::vector<float>& soft)>;
Perceived perceive(const link::Program& program, link::Executor& executor, const IdPrompt& prompt, const std::string& folder,
                   const SeeFile& see = {});

}  // namespace lapidary::cli
