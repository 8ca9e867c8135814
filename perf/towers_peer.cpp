// A picture of 768 x 768 through the tower of an mmproj file, in llama.cpp: towers_peer FILE THREADS TIMES prints milliseconds, one a line.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "clip.h"
#include "clip-impl.h"

int main(int, char** arguments) {
  clip_context_params params{};
  params.flash_attn_type = CLIP_FLASH_ATTN_TYPE_AUTO;
  params.image_min_tokens = params.image_max_tokens = -1;
  clip_ctx* const tower = clip_init(arguments[1], params).ctx_v;
  if (!tower) return 1;
  constexpr int kSide = 768;
  clip_image_f32 picture;
  picture.set_size({kSide, kSide}, false, false);
  std::vector<float> values(3 * kSide * kSide), soft(static_cast<std::size_t>(clip_n_output_tokens(tower, &picture)) * clip_n_mmproj_embd(tower));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 65521) / 65521.0f;
  picture.cpy_buf(values);
  for (int i = 0; i <= std::atoi(arguments[3]); ++i) {
    const auto begin = std::chrono::steady_clock::now();
    if (!clip_image_encode(tower, std::atoi(arguments[2]), &picture, soft)) return 1;
    const double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
    if (i > 0) std::printf("%.1f\n", ms);  // the first one makes room
  }
}
