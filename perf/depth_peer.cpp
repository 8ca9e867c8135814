// Decoding at depth in llama.cpp: depth_peer MODEL.gguf f16|q8_0 DEPTH TOKENS THREADS STATE prints tokens per second. What lies before is
// computed once, which takes many minutes, and kept in the file STATE.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "llama.h"

int main(int, char** arguments) {
  const std::string kind = arguments[2], state = arguments[6];
  const int depth = std::atoi(arguments[3]), tokens = std::atoi(arguments[4]);
  llama_backend_init();
  llama_model* const model = llama_model_load_from_file(arguments[1], llama_model_default_params());
  if (!model) return 1;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = depth + tokens + 256;
  params.n_threads = params.n_threads_batch = std::atoi(arguments[5]);
  params.type_k = params.type_v = kind == "f16" ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;
  llama_context* const context = llama_init_from_model(model, params);
  if (!context) return 1;

  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));
  std::vector<llama_token> ids(depth + tokens);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<llama_token>((i * 7919 + 11) % vocabulary);
  const auto decode = [&](int begin, int count) { return llama_decode(context, llama_batch_get_one(ids.data() + begin, count)) == 0; };

  std::vector<llama_token> loaded(depth);
  std::size_t count = 0;
  if (!llama_state_load_file(context, state.c_str(), loaded.data(), loaded.size(), &count)) {
    for (int begin = 0; begin < depth; begin += 512)
      if (!decode(begin, std::min(512, depth - begin))) return 1;
    if (!llama_state_save_file(context, state.c_str(), ids.data(), depth)) return 1;
  } else if (count != static_cast<std::size_t>(depth)) {
    return 1;
  }
  if (!decode(depth, 1)) return 1;  // warm
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i < tokens; ++i) {
    if (!decode(depth + i, 1)) return 1;
    llama_synchronize(context);
  }
  std::printf("%.3f\n", (tokens - 1) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}
