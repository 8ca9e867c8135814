// quality_peers MODEL OUTPUT THREADS f16|f32: llama.cpp's logits for the token ids on stdin, as float32 [ids, vocab].
// The last argument is the type of K/V.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string_view>
#include <vector>

#include <llama-cpp.h>

namespace {

void expect(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "[quality_peers] %s\n", what);
  std::exit(1);
}

void print_errors(ggml_log_level level, const char* text, void*) {
  if (level == GGML_LOG_LEVEL_ERROR) std::fputs(text, stderr);
}

void run(const char* file, const char* output, int threads, bool float_kv) {
  std::vector<llama_token> ids{std::istream_iterator<llama_token>(std::cin), {}};
  const llama_model_ptr model(llama_model_load_from_file(file, llama_model_default_params()));
  expect(model != nullptr, "expected a model that llama.cpp can load");

  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = static_cast<std::uint32_t>(ids.size());
  params.n_threads = params.n_threads_batch = threads;
  if (float_kv) {
    params.type_k = params.type_v = GGML_TYPE_F32;
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;  // it would round K/V to float16
  }
  const llama_context_ptr context(llama_init_from_model(model.get(), params));
  expect(context != nullptr, "expected memory for a context");

  std::vector<std::int8_t> wanted(ids.size(), true);
  llama_batch batch = llama_batch_get_one(ids.data(), static_cast<std::int32_t>(ids.size()));
  batch.logits = wanted.data();
  expect(llama_decode(context.get(), batch) == 0, "expected llama.cpp to read all ids");

  const auto vocab = static_cast<std::size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model.get())));
  const auto bytes = static_cast<std::streamsize>(ids.size() * vocab * sizeof(float));
  std::ofstream stream(output, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(llama_get_logits(context.get())), bytes).flush();
  expect(stream.good(), "expected room for the logits");
}

}  // namespace

int main(int count, char** arguments) {
  expect(count == 5, "expected MODEL OUTPUT THREADS f16|f32");
  llama_log_set(print_errors, nullptr);
  run(arguments[1], arguments[2], std::atoi(arguments[3]), arguments[4] == std::string_view("f32"));
}
