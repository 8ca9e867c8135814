// How the numbers of a matrix are read, for every storage of a checkpoint. The storage is a matter of function constants,
// so that of all this only a few instructions are left in a pipeline. Shifts and conversions of integers cost four times an
// addition on Apple's GPUs: the common codings do with hardly any.

constant int kCoding0 [[function_constant(16)]];     // of the first matrix of the step: a Coding
constant int kGroup0 [[function_constant(17)]];      // inputs that share a scale
constant int kScaleType0 [[function_constant(18)]];  // of scales and biases: kPlain...
constant int kCoding1 [[function_constant(20)]];
constant int kGroup1 [[function_constant(21)]];
constant int kScaleType1 [[function_constant(22)]];
constant int kCoding2 [[function_constant(24)]];
constant int kGroup2 [[function_constant(25)]];
constant int kScaleType2 [[function_constant(26)]];
constant int kClipped [[function_constant(28)]];     // of a prompt: some matrix has bounds

struct Weights {
  device const uchar* values;
  device const uchar* scales;
  device const uchar* biases;
  uint row_bytes, scale_row_bytes;
  float input_min, input_max;
  int coding, group, scale_type;
};

inline Weights weights_of(device const uchar* values, device const uchar* scales, device const uchar* biases,
                          constant MatrixLayout& layout, int coding, int group, int scale_type) {
  Weights w;
  w.values = values;
  w.scales = scales;
  w.biases = biases;
  w.row_bytes = layout.row_bytes;
  w.scale_row_bytes = layout.scale_row_bytes;
  w.input_min = layout.input_min;
  w.input_max = layout.input_max;
  w.coding = coding;
  w.group = group;
  w.scale_type = scale_type;
  return w;
}

inline Weights at_expert(Weights w, constant MatrixLayout& layout, int expert) {
  w.values += layout.expert_bytes * ulong(expert);
  w.scales += layout.scale_expert_bytes * ulong(expert);
  w.biases += layout.scale_expert_bytes * ulong(expert);
  return w;
}

// The matrix from this row on. Tables are larger than 4 GB, the few rows of a threadgroup are not: from here on 32 bits do.
inline Weights at_row(Weights w, int row) {
  w.values += ulong(row) * w.row_bytes;
  w.scales += ulong(row) * w.scale_row_bytes;
  w.biases += ulong(row) * w.scale_row_bytes;
  return w;
}

inline float number_at(device const uchar* array, uint index, int type) {
  if (type == kPlainF16) return float(((device const half*)array)[index]);
  if (type == kPlainBf16) return as_type<float>(ushort2(0, ((device const ushort*)array)[index]));
  return ((device const float*)array)[index];
}

// 2^(code - 127); code 0 is 2^-127.
inline float e8m0(uint code) { return as_type<float>(code == 0 ? 0x00400000u : code << 23); }

// The fields of an e4m3 number moved into those of a half, twice: the exponent is 8 too low.
inline half2 e4m3(uint signs, uint magnitudes) { return as_type<half2>(signs | magnitudes) * half(256.0f); }

// Sixteen inputs of a row as they are stored: they have the same scale in every coding.
enum { kPackInputs = 16 };
struct Pack {
  uint words[4];  // the bit stream; plain numbers stay where they are
  float scale, bias;
};

// Inputs i to i + 15, where i is a multiple of 16. Their bytes begin at a multiple of 4, but for 3 and 5 bits.
inline Pack pack_at(Weights w, uint row, int i) {
  Pack pack = {{0, 0, 0, 0}, 0.0f, 0.0f};
  if (w.coding <= kPlainBf16) return pack;
  const uint at = row * w.row_bytes, pack_number = uint(i) / kPackInputs;
  switch (w.coding) {
    case kAffine2: pack.words[0] = *(device const uint*)(w.values + at + pack_number * 4); break;
    case kAffine3: {
      device const ushort* from = (device const ushort*)(w.values + at + pack_number * 6);
      pack.words[0] = as_type<uint>(ushort2(from[0], from[1]));
      pack.words[1] = from[2];
      break;
    }
    case kAffine5: {
      device const ushort* from = (device const ushort*)(w.values + at + pack_number * 10);
      pack.words[0] = as_type<uint>(ushort2(from[0], from[1]));
      pack.words[1] = as_type<uint>(ushort2(from[2], from[3]));
      pack.words[2] = from[4];
      break;
    }
    case kAffine6: {
      const uint3 words = *(device const packed_uint3*)(w.values + at + pack_number * 12);
      pack.words[0] = words.x;
      pack.words[1] = words.y;
      pack.words[2] = words.z;
      break;
    }
    case kAffine8:
    case kMxfp8: {
      const uint4 words = *(device const packed_uint4*)(w.values + at + pack_number * 16);
      pack.words[0] = words.x;
      pack.words[1] = words.y;
      pack.words[2] = words.z;
      pack.words[3] = words.w;
      break;
    }
    default: {
      const uint2 words = *(device const packed_uint2*)(w.values + at + pack_number * 8);
      pack.words[0] = words.x;
      pack.words[1] = words.y;
    }
  }
  device const uchar* scales = w.scales + row * w.scale_row_bytes;
  const uint group = uint(i) / uint(w.group);
  if (w.coding <= kAffine8) {
    pack.scale = number_at(scales, group, w.scale_type);
    pack.bias = number_at(w.biases + row * w.scale_row_bytes, group, w.scale_type);
  } else if (w.coding == kNvfp4) {
    const uint code = scales[group];
    pack.scale = float(e4m3((code & 0x80u) << 8, (code & 0x7fu) << 7).x);
  } else {
    pack.scale = e8m0(scales[group]);
  }
  return pack;
}

// 0x6400 is 1024 in half precision, where a step of the mantissa is one: a code put there is a number after a subtraction,
// two at a time and all exact.
inline half2 two_codes(uint codes) { return as_type<half2>(codes | 0x64006400u) - half(1024.0f); }
inline half2 two_codes_times_16(uint codes) {
  return fma(as_type<half2>(codes | 0x64006400u), half2(half(0.0625f)), half2(half(-64.0f)));
}

// The eight codes of a word: numbers j and j + 4 are pair j.
inline void codes_of_4_bits(uint word, thread half2* pairs) {
  pairs[0] = two_codes(word & 0x000f000fu);
  pairs[1] = two_codes_times_16(word & 0x00f000f0u);
  word >>= 8;
  pairs[2] = two_codes(word & 0x000f000fu);
  pairs[3] = two_codes_times_16(word & 0x00f000f0u);
}

// Likewise for sign, two bits of exponent, one of mantissa. The exponent of the half they become is 14 too low.
inline void e2m1_of_4_bits(uint word, thread half2* pairs) {
  for (int p = 0; p < 4; ++p) {
    const uint at_top = word << (12 - 4 * p);
    pairs[p] = as_type<half2>((at_top & 0x80008000u) | ((at_top & 0x70007000u) >> 3)) * half(16384.0f);
  }
}

// Code j of a stream of codes of Bits bits.
template <int Bits>
inline float code_at(thread const uint* words, int j) {
  const int bit = j * Bits, word = bit / 32, shift = bit % 32;
  uint code = words[word] >> shift;
  if (shift + Bits > 32) code |= words[word + 1] << (32 - shift);
  return float(code & ((1u << Bits) - 1u));
}

template <int Bits>
inline void affine_of(Pack pack, int half_number, thread float* to) {
  for (int j = 0; j < 8; ++j) to[j] = fma(pack.scale, code_at<Bits>(pack.words, 8 * half_number + j), pack.bias);
}

// Eight numbers of a row at i, 0 behind the last. Rows need not begin where a vector may.
inline void read_plain(Weights w, uint row, int i, thread float* to) {
  device const uchar* from = w.values + row * w.row_bytes;
  if (kInputs % kPackInputs != 0 && i + 8 > kInputs) {
    for (int j = 0; j < 8; ++j) to[j] = i + j < kInputs ? number_at(from, uint(i + j), w.coding) : 0.0f;
    return;
  }
  for (int quarter = 0; quarter < 8; quarter += 4) {
    if (w.coding == kPlainF32) {
      const float4 four = *(device const packed_float4*)(from + (i + quarter) * 4);
      for (int j = 0; j < 4; ++j) to[quarter + j] = four[j];
    } else {
      const ushort4 four = *(device const packed_ushort4*)(from + (i + quarter) * 2);
      for (int j = 0; j < 4; ++j)
        to[quarter + j] = w.coding == kPlainF16 ? float(as_type<half>(four[j])) : as_type<float>(ushort2(0, four[j]));
    }
  }
}

// The numbers of inputs i + 8 * half_number to i + 8 * half_number + 7, where `pack` is that at i.
inline void decode(Weights w, Pack pack, uint row, int i, int half_number, thread float* to) {
  half2 pairs[4];
  switch (w.coding) {
    case kPlainF32:
    case kPlainF16:
    case kPlainBf16: read_plain(w, row, i + 8 * half_number, to); return;
    case kAffine2: affine_of<2>(pack, half_number, to); return;
    case kAffine3: affine_of<3>(pack, half_number, to); return;
    case kAffine5: affine_of<5>(pack, half_number, to); return;
    case kAffine6: affine_of<6>(pack, half_number, to); return;
    case kAffine4:
      codes_of_4_bits(pack.words[half_number], pairs);
      for (int j = 0; j < 4; ++j) {
        to[j] = fma(pack.scale, float(pairs[j].x), pack.bias);
        to[j + 4] = fma(pack.scale, float(pairs[j].y), pack.bias);
      }
      return;
    case kAffine8:
      for (int k = 0; k < 2; ++k) {
        const uint word = pack.words[2 * half_number + k];
        const half2 even = two_codes(word & 0x00ff00ffu), odd = two_codes((word >> 8) & 0x00ff00ffu);
        to[4 * k] = fma(pack.scale, float(even.x), pack.bias);
        to[4 * k + 1] = fma(pack.scale, float(odd.x), pack.bias);
        to[4 * k + 2] = fma(pack.scale, float(even.y), pack.bias);
        to[4 * k + 3] = fma(pack.scale, float(odd.y), pack.bias);
      }
      return;
    case kMxfp8:
      for (int k = 0; k < 2; ++k) {
        const uint word = pack.words[2 * half_number + k];
        const half2 even = e4m3((word & 0x00800080u) << 8, (word & 0x007f007fu) << 7);
        const half2 odd = e4m3(word & 0x80008000u, (word & 0x7f007f00u) >> 1);
        to[4 * k] = pack.scale * float(even.x);
        to[4 * k + 1] = pack.scale * float(odd.x);
        to[4 * k + 2] = pack.scale * float(even.y);
        to[4 * k + 3] = pack.scale * float(odd.y);
      }
      return;
    default:
      e2m1_of_4_bits(pack.words[half_number], pairs);
      for (int j = 0; j < 4; ++j) {
        to[j] = pack.scale * float(pairs[j].x);
        to[j + 4] = pack.scale * float(pairs[j].y);
      }
  }
}

// Inputs i to i + 7 of a row of activations, 0 behind the last.
inline void read_inputs(device const float* x, int i, thread float* to) {
  if (kInputs % kPackInputs != 0 && i + 8 > kInputs) {
    for (int j = 0; j < 8; ++j) to[j] = i + j < kInputs ? x[i + j] : 0.0f;
    return;
  }
  const float4 low = *(device const packed_float4*)(x + i), high = *(device const packed_float4*)(x + i + 4);
  for (int j = 0; j < 4; ++j) {
    to[j] = low[j];
    to[j + 4] = high[j];
  }
}

// Within the bounds of a matrix that has some.
inline float clipped_input(Weights w, float x) { return kClipped ? clamp(x, w.input_min, w.input_max) : x; }
inline float clipped_product(constant MatrixLayout& layout, float y) {
  return kClipped ? clamp(y, layout.output_min, layout.output_max) : y;
}
