// The structs of lapidary.h as programs were compiled with them. Whoever changes one raises LAPIDARY_ABI and this table with it; fields
// are added at the end only.
#include <boost/ut.hpp>

#include <cstddef>
#include <string_view>
#include <vector>

#include "lapidary.h"

namespace lapidary::test::layout_test {
namespace {

using namespace boost::ut;

struct Place {
  const char* name;
  std::size_t offset, size, expected_offset, expected_size;
};

#define PLACE(type, field, expected_offset, expected_size) \
  Place{#type "." #field, offsetof(type, field), sizeof(type::field), expected_offset, expected_size}
#define WHOLE(type, expected_size) Place{#type, 0, sizeof(type), 0, expected_size}

const std::vector<Place> kPlaces = {
    WHOLE(lapidary_error, 512), PLACE(lapidary_error, size, 0, 8), PLACE(lapidary_error, status, 8, 4),
    PLACE(lapidary_error, message, 12, 500),

    WHOLE(lapidary_model_options, 72), PLACE(lapidary_model_options, size, 0, 8), PLACE(lapidary_model_options, backend, 8, 8),
    PLACE(lapidary_model_options, assistant, 16, 8), PLACE(lapidary_model_options, memory_limit_bytes, 24, 8),
    PLACE(lapidary_model_options, context_tokens, 32, 4), PLACE(lapidary_model_options, chunk_tokens, 36, 4),
    PLACE(lapidary_model_options, sessions, 40, 4), PLACE(lapidary_model_options, threads, 44, 4),
    PLACE(lapidary_model_options, numeric, 48, 4), PLACE(lapidary_model_options, draft, 52, 4),
    PLACE(lapidary_model_options, draft_tokens, 56, 4), PLACE(lapidary_model_options, flags, 60, 4),
    PLACE(lapidary_model_options, image_tokens, 64, 4), PLACE(lapidary_model_options, kv, 68, 4),

    WHOLE(lapidary_memory_plan, 80), PLACE(lapidary_memory_plan, size, 0, 8), PLACE(lapidary_memory_plan, weights_mapped_bytes, 8, 8),
    PLACE(lapidary_memory_plan, anonymous_bytes, 16, 8), PLACE(lapidary_memory_plan, kv_bytes, 24, 8),
    PLACE(lapidary_memory_plan, arena_bytes, 32, 8), PLACE(lapidary_memory_plan, constants_bytes, 40, 8),
    PLACE(lapidary_memory_plan, repacked_bytes, 48, 8), PLACE(lapidary_memory_plan, room_bytes, 56, 8),
    PLACE(lapidary_memory_plan, text_bytes, 64, 8), PLACE(lapidary_memory_plan, tower_bytes, 72, 8),

    WHOLE(lapidary_model_info, 64), PLACE(lapidary_model_info, size, 0, 8), PLACE(lapidary_model_info, vocab, 8, 4),
    PLACE(lapidary_model_info, hidden, 12, 4), PLACE(lapidary_model_info, layers, 16, 4),
    PLACE(lapidary_model_info, context_tokens, 20, 4), PLACE(lapidary_model_info, chunk_tokens, 24, 4),
    PLACE(lapidary_model_info, sessions, 28, 4), PLACE(lapidary_model_info, threads, 32, 4),
    PLACE(lapidary_model_info, round_tokens, 36, 4), PLACE(lapidary_model_info, has_assistant, 40, 4),
    PLACE(lapidary_model_info, numeric, 44, 4), PLACE(lapidary_model_info, senses, 48, 4), PLACE(lapidary_model_info, image_tokens, 52, 4),
    PLACE(lapidary_model_info, kv, 56, 4), PLACE(lapidary_model_info, reserved, 60, 4),

    WHOLE(lapidary_bias, 8), PLACE(lapidary_bias, id, 0, 4), PLACE(lapidary_bias, value, 4, 4),

    WHOLE(lapidary_sampling, 64), PLACE(lapidary_sampling, size, 0, 8), PLACE(lapidary_sampling, seed, 8, 8),
    PLACE(lapidary_sampling, bias, 16, 8), PLACE(lapidary_sampling, bias_count, 24, 8), PLACE(lapidary_sampling, given, 32, 4),
    PLACE(lapidary_sampling, temperature, 36, 4), PLACE(lapidary_sampling, top_k, 40, 4), PLACE(lapidary_sampling, top_p, 44, 4),
    PLACE(lapidary_sampling, min_p, 48, 4), PLACE(lapidary_sampling, repetition, 52, 4), PLACE(lapidary_sampling, presence, 56, 4),
    PLACE(lapidary_sampling, frequency, 60, 4),

    WHOLE(lapidary_medium, 40), PLACE(lapidary_medium, size, 0, 8), PLACE(lapidary_medium, data, 8, 8), PLACE(lapidary_medium, data_bytes, 16, 8),
    PLACE(lapidary_medium, kind, 24, 4), PLACE(lapidary_medium, image_tokens, 28, 4), PLACE(lapidary_medium, width, 32, 4),
    PLACE(lapidary_medium, height, 36, 4),

    WHOLE(lapidary_request, 104), PLACE(lapidary_request, size, 0, 8), PLACE(lapidary_request, messages, 8, 8),
    PLACE(lapidary_request, tools, 16, 8), PLACE(lapidary_request, ids, 24, 8), PLACE(lapidary_request, id_count, 32, 8),
    PLACE(lapidary_request, schema, 40, 8), PLACE(lapidary_request, stops, 48, 8), PLACE(lapidary_request, stop_count, 56, 8),
    PLACE(lapidary_request, sampling, 64, 8), PLACE(lapidary_request, flags, 72, 4), PLACE(lapidary_request, reading, 76, 4),
    PLACE(lapidary_request, max_tokens, 80, 4), PLACE(lapidary_request, top_logprobs, 84, 4), PLACE(lapidary_request, media, 88, 8),
    PLACE(lapidary_request, media_count, 96, 8),

    WHOLE(lapidary_event, 48), PLACE(lapidary_event, size, 0, 8), PLACE(lapidary_event, text, 8, 8),
    PLACE(lapidary_event, text_bytes, 16, 8), PLACE(lapidary_event, arguments, 24, 8), PLACE(lapidary_event, arguments_bytes, 32, 8),
    PLACE(lapidary_event, kind, 40, 4), PLACE(lapidary_event, ending, 44, 4),

    WHOLE(lapidary_logprob, 8), PLACE(lapidary_logprob, id, 0, 4), PLACE(lapidary_logprob, logprob, 4, 4),
};

const suite<"layout"> layout = [] {
  "structs are as programs know them"_test = [] {
    expect(LAPIDARY_ABI == 4_i) << "the table is that of ABI 4";
    for (const Place& place : kPlaces)
      expect(place.offset == place.expected_offset && place.size == place.expected_size)
          << place.name << "is at" << place.offset << "with" << place.size << "bytes: raise LAPIDARY_ABI";
  };

  // A field that was added between others is in no row of the table.
  "every byte of a struct belongs to a field of the table"_test = [] {
    std::size_t end = 0, whole = 0;
    const char* name = "";
    const auto check = [&] { expect(end == whole) << name; };
    for (const Place& place : kPlaces) {
      if (std::string_view(place.name).find('.') == std::string_view::npos) {
        check();
        name = place.name;
        whole = place.size;
        end = 0;
        continue;
      }
      expect(place.offset == end) << place.name;
      end = place.offset + place.size;
    }
    check();
  };
};

}  // namespace
}  // namespace lapidary::test::layout_test
