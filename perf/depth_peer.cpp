// Decoding at depth in llama.cpp: depth_peer MODEL.gguf f16|q8_0 DEPTH TOKENS THREADS STATE prints tokens per second. What lies before is
// computed once and kept in the file STATE: in blocks that do not see each other, as their K/V is as long as any and is there in minutes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "llama.h"

namespace {

constexpr int kBlock = 2048;  // tokens that see each other
constexpr int kBatch = 512;   // tokens computed together

using Context = std::unique_ptr<llama_context, decltype(&llama_free)>;

struct Peer {
  llama_model* model;
  llama_context_params params;
  int vocabulary;

  Context open(int positions, int sequences) const {
    llama_context_params opened = params;
    opened.n_ctx = positions;
    opened.n_seq_max = sequences;
    opened.kv_unified = true;  // so that a sequence can be given what another one has
    Context context{llama_init_from_model(model, opened), llama_free};
    if (!context) std::exit(1);
    return context;
  }

  void decode(llama_context& context, int begin, int count) const {
    std::vector<llama_token> ids(count);
    std::vector<llama_pos> positions(count);
    std::iota(positions.begin(), positions.end(), begin);
    std::ranges::transform(positions, ids.begin(), [&](std::int64_t position) { return static_cast<llama_token>((position * 7919 + 11) % vocabulary); });
    llama_batch batch = llama_batch_get_one(ids.data(), count);
    batch.pos = positions.data();
    if (llama_decode(&context, batch) != 0) std::exit(1);
    llama_synchronize(&context);
  }

  void fill(const std::string& path, int depth) const {
    const int blocks = (depth + kBlock - 1) / kBlock;
    const Context whole = open(depth, blocks), part = open(kBlock, 1);
    for (int block = 0; block < blocks; ++block) {
      const int first = block * kBlock, last = std::min(first + kBlock, depth);
      llama_memory_clear(llama_get_memory(part.get()), true);
      for (int begin = first; begin < last; begin += kBatch) decode(*part, begin, std::min(kBatch, last - begin));
      std::vector<std::uint8_t> bytes(llama_state_seq_get_size(part.get(), 0));
      if (llama_state_seq_get_data(part.get(), bytes.data(), bytes.size(), 0) != bytes.size()) std::exit(1);
      if (llama_state_seq_set_data(whole.get(), bytes.data(), bytes.size(), block) == 0) std::exit(1);
      llama_memory_seq_cp(llama_get_memory(whole.get()), block, 0, -1, -1);
    }
    if (llama_state_seq_save_file(whole.get(), path.c_str(), 0, nullptr, 0) == 0) std::exit(1);
  }
};

}  // namespace

int main(int, char** arguments) {
  const std::string kind = arguments[2], state = arguments[6];
  const int depth = std::atoi(arguments[3]), tokens = std::atoi(arguments[4]);
  llama_backend_init();
  llama_model* const model = llama_model_load_from_file(arguments[1], llama_model_default_params());
  if (!model) return 1;
  Peer peer{model, llama_context_default_params(), llama_vocab_n_tokens(llama_model_get_vocab(model))};
  peer.params.n_threads = peer.params.n_threads_batch = std::atoi(arguments[5]);
  peer.params.type_k = peer.params.type_v = kind == "f16" ? GGML_TYPE_F16 : GGML_TYPE_Q8_0;

  const Context context = peer.open(depth + tokens + 256, 1);
  const auto load = [&] {
    llama_token id;  // the file has none
    std::size_t count = 0;
    return llama_state_seq_load_file(context.get(), state.c_str(), 0, &id, 1, &count) != 0;
  };
  if (!load()) {
    peer.fill(state, depth);
    if (!load()) return 1;
  }
  if (llama_memory_seq_pos_max(llama_get_memory(context.get()), 0) != depth - 1) return 1;
  peer.decode(*context, depth, 1);  // warm
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 1; i < tokens; ++i) peer.decode(*context, depth + i, 1);
  std::printf("%.3f\n", (tokens - 1) / std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
}
