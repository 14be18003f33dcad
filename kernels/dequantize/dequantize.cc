#include "kernels/dequantize/dequantize.h"

#include <array>
#include <cstring>

namespace paceline::kernels {
namespace {

using Byte = uint8_t;

// Non-linear 4-bit levels of IQ4_NL and IQ4_XS.
constexpr std::array<int8_t, 16> kIQ4Levels = {-127, -104, -83, -65, -49, -35, -22, -10,
                                               1,    13,   25,  38,  53,  69,  89,  113};
// Twice the E2M1 values of MXFP4; the exponent below is one lower for it.
constexpr std::array<int8_t, 16> kE2M1Doubled = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

template <typename T>
T Load(const Byte* in) {
  T value;
  std::memcpy(&value, in, sizeof(value));
  return value;
}

float Half(const Byte* in) { return HalfToFloat(Load<uint16_t>(in)); }

int Low(Byte byte) { return byte & 15; }
int High(Byte byte) { return byte >> 4; }

// Element e of a block of 32 nibbles: the low nibbles are the first half, the high ones the second.
int Nibble32(const Byte* qs, int e) { return e < 16 ? Low(qs[e]) : High(qs[e - 16]); }

// A block decoder writes Info(dtype).block_elements floats from block_bytes bytes.

void BlockF32(const Byte* in, float* out) { *out = Load<float>(in); }
void BlockF16(const Byte* in, float* out) { *out = Half(in); }
void BlockBF16(const Byte* in, float* out) { *out = BFloat16ToFloat(Load<uint16_t>(in)); }

// [0] f16 d, [2] i8 q[32]
void BlockQ8_0(const Byte* in, float* out) {
  const float d = Half(in);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(static_cast<int8_t>(in[2 + e]));
}

// [0] f16 d, [2] nibbles[16]
void BlockQ4_0(const Byte* in, float* out) {
  const float d = Half(in);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(Nibble32(in + 2, e) - 8);
}

// [0] f16 d, [2] f16 m, [4] nibbles[16]
void BlockQ4_1(const Byte* in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(Nibble32(in + 4, e)) + m;
}

// Element e of a 5-bit block: its fifth bit is bit e of `high_bits`.
int Quint32(const Byte* qs, uint32_t high_bits, int e) {
  return Nibble32(qs, e) | static_cast<int>(((high_bits >> e) & 1u) << 4);
}

// [0] f16 d, [2] u32 high bits, [6] nibbles[16]
void BlockQ5_0(const Byte* in, float* out) {
  const float d = Half(in);
  const auto high_bits = Load<uint32_t>(in + 2);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(Quint32(in + 6, high_bits, e) - 16);
}

// [0] f16 d, [2] f16 m, [4] u32 high bits, [8] nibbles[16]
void BlockQ5_1(const Byte* in, float* out) {
  const float d = Half(in);
  const float m = Half(in + 2);
  const auto high_bits = Load<uint32_t>(in + 4);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(Quint32(in + 8, high_bits, e)) + m;
}

// [0] f16 d, [2] nibbles[16]
void BlockIQ4_NL(const Byte* in, float* out) {
  const float d = Half(in);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(kIQ4Levels[Nibble32(in + 2, e)]);
}

// 2^(exponent - 128), exact, also where it is a subnormal float (exponents 0 and 1).
float HalvedE8M0(Byte exponent) {
  const uint32_t bits = exponent < 2 ? 0x00200000u << exponent : static_cast<uint32_t>(exponent - 1) << 23;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

// [0] u8 exponent, [1] nibbles[16]
void BlockMXFP4(const Byte* in, float* out) {
  const float d = HalvedE8M0(in[0]);
  for (int e = 0; e < 32; ++e) out[e] = d * static_cast<float>(kE2M1Doubled[Nibble32(in + 1, e)]);
}

// [0] f16 d, [2] u16 high scale bits, [4] low scale nibbles[4], [8] nibbles[128]; sub-blocks of 32
void BlockIQ4_XS(const Byte* in, float* out) {
  const float d = Half(in);
  const auto scales_high = Load<uint16_t>(in + 2);
  for (int b = 0; b < 8; ++b) {
    const int low = (in[4 + b / 2] >> (4 * (b % 2))) & 15;
    const int high = (scales_high >> (2 * b)) & 3;
    const float scale = d * static_cast<float>((low | (high << 4)) - 32);
    const Byte* qs = in + 8 + 16 * b;
    for (int e = 0; e < 32; ++e) out[32 * b + e] = scale * static_cast<float>(kIQ4Levels[Nibble32(qs, e)]);
  }
}

// Element e of the 2-bit planes that Q2_K and Q3_K share.
int Pair256(const Byte* qs, int e) { return (qs[32 * (e / 128) + e % 32] >> (2 * ((e % 128) / 32))) & 3; }

// [0] scale and min nibbles[16], [16] 2-bit[64], [80] f16 d, [82] f16 dmin; sub-blocks of 16
void BlockQ2_K(const Byte* in, float* out) {
  const float d = Half(in + 80);
  const float dmin = Half(in + 82);
  for (int e = 0; e < 256; ++e) {
    const Byte scale = in[e / 16];
    out[e] = d * static_cast<float>(Low(scale)) * static_cast<float>(Pair256(in + 16, e)) -
             dmin * static_cast<float>(High(scale));
  }
}

// The 6-bit scale of sub-block j of Q3_K, from 12 packed bytes.
int ScaleQ3K(const Byte* packed, int j) {
  const int low = j < 8 ? Low(packed[j]) : High(packed[j - 8]);
  const int high = (packed[8 + j % 4] >> (2 * (j / 4))) & 3;
  return (low | (high << 4)) - 32;
}

// [0] high bits[32], [32] 2-bit[64], [96] scales[12], [108] f16 d; sub-blocks of 16
void BlockQ3_K(const Byte* in, float* out) {
  const float d = Half(in + 108);
  for (int e = 0; e < 256; ++e) {
    const bool high = ((in[e % 32] >> (e / 32)) & 1) != 0;
    const int q = Pair256(in + 32, e) - (high ? 0 : 4);
    out[e] = d * static_cast<float>(ScaleQ3K(in + 96, e / 16)) * static_cast<float>(q);
  }
}

struct ScaleMin {
  float scale;
  float min;
};

// The 6-bit scale and minimum of sub-block j (32 elements) of Q4_K and Q5_K, from 12 packed bytes.
ScaleMin ScaleMinK(const Byte* packed, int j) {
  if (j < 4) return {static_cast<float>(packed[j] & 63), static_cast<float>(packed[j + 4] & 63)};
  return {static_cast<float>(Low(packed[j + 4]) | ((packed[j - 4] >> 6) << 4)),
          static_cast<float>(High(packed[j + 4]) | ((packed[j] >> 6) << 4))};
}

// Element r of sub-block j: even sub-blocks are low nibbles, odd ones high.
int NibbleK(const Byte* qs, int j, int r) {
  const Byte byte = qs[32 * (j / 2) + r];
  return j % 2 == 0 ? Low(byte) : High(byte);
}

// [0] f16 d, [2] f16 dmin, [4] scales[12], [16] nibbles[128]
void BlockQ4_K(const Byte* in, float* out) {
  const float d = Half(in);
  const float dmin = Half(in + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sub = ScaleMinK(in + 4, j);
    const float scale = d * sub.scale;
    const float min = dmin * sub.min;
    for (int r = 0; r < 32; ++r) out[32 * j + r] = scale * static_cast<float>(NibbleK(in + 16, j, r)) - min;
  }
}

// [0] f16 d, [2] f16 dmin, [4] scales[12], [16] high bits[32], [48] nibbles[128]
void BlockQ5_K(const Byte* in, float* out) {
  const float d = Half(in);
  const float dmin = Half(in + 2);
  for (int j = 0; j < 8; ++j) {
    const ScaleMin sub = ScaleMinK(in + 4, j);
    const float scale = d * sub.scale;
    const float min = dmin * sub.min;
    for (int r = 0; r < 32; ++r) {
      const int q = NibbleK(in + 48, j, r) + 16 * ((in[16 + r] >> j) & 1);
      out[32 * j + r] = scale * static_cast<float>(q) - min;
    }
  }
}

// [0] low nibbles[128], [128] high pairs[64], [192] i8 scales[16], [208] f16 d; sub-blocks of 16
void BlockQ6_K(const Byte* in, float* out) {
  const float d = Half(in + 208);
  for (int e = 0; e < 256; ++e) {
    const int n = e / 128;
    const int k = (e % 128) / 32;
    const int l = e % 32;
    const Byte low = in[64 * n + l + (k % 2 != 0 ? 32 : 0)];
    const int high = (in[128 + 32 * n + l] >> (2 * k)) & 3;
    const int q = ((k < 2 ? Low(low) : High(low)) | (high << 4)) - 32;
    const auto scale = static_cast<float>(static_cast<int8_t>(in[192 + e / 16]));
    out[e] = d * scale * static_cast<float>(q);
  }
}

using BlockDecoder = void (*)(const Byte*, float*);

BlockDecoder DecoderOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return BlockF32;
    case DType::kF16:
      return BlockF16;
    case DType::kBF16:
      return BlockBF16;
    case DType::kQ4_0:
      return BlockQ4_0;
    case DType::kQ4_1:
      return BlockQ4_1;
    case DType::kQ5_0:
      return BlockQ5_0;
    case DType::kQ5_1:
      return BlockQ5_1;
    case DType::kQ8_0:
      return BlockQ8_0;
    case DType::kQ2_K:
      return BlockQ2_K;
    case DType::kQ3_K:
      return BlockQ3_K;
    case DType::kQ4_K:
      return BlockQ4_K;
    case DType::kQ5_K:
      return BlockQ5_K;
    case DType::kQ6_K:
      return BlockQ6_K;
    case DType::kIQ4_NL:
      return BlockIQ4_NL;
    case DType::kIQ4_XS:
      return BlockIQ4_XS;
    case DType::kMXFP4:
      return BlockMXFP4;
    case DType::kF64:
    case DType::kI8:
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kBool:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

bool CanDequantize(DType dtype) { return DecoderOf(dtype) != nullptr; }

Status DequantizeRow(DType dtype, const std::byte* in, float* out, uint64_t elements) {
  const BlockDecoder decode = DecoderOf(dtype);
  if (decode == nullptr) return InvalidArgumentError("{} is not a type of weights", Name(dtype));
  RETURN_IF_ERROR(RowBytes(dtype, elements).status());
  const DTypeInfo& info = Info(dtype);
  const Byte* block = reinterpret_cast<const Byte*>(in);
  for (uint64_t done = 0; done < elements; done += info.block_elements) {
    decode(block, out + done);
    block += info.block_bytes;
  }
  return OkStatus();
}

}  // namespace paceline::kernels
