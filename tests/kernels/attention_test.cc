// Attention against one double softmax over the whole path, and bit-equality over everything that must not
// matter: block placement, prefix against tail, slots of tree rows, neighbours, threads, instruction set.
#include "kernels/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "kernels/attention/attention_cases.h"
#include "kernels/attention/attention_ref.h"
#include "tests/kernels/kernel_test_support.h"

namespace paceline::kernels {
namespace {

constexpr size_t kBlockSize = 16;

// K and V vectors of a sequence by position, and a pool that holds them wherever a block table says.
struct Sequence {
  AttentionShape shape;
  std::vector<float> k, v;  // [length, num_kv_heads, head_dim]

  Sequence(const AttentionShape& s, size_t length, uint32_t seed)
      : shape(s), k(RandomFloats(length * Width(), seed)), v(RandomFloats(length * Width(), seed + 1)) {}
  size_t Width() const { return shape.num_kv_heads * shape.head_dim; }
};

struct Pool {
  AttentionShape shape;
  std::vector<std::byte> k, v;

  Pool(const AttentionShape& s, size_t num_blocks) : shape(s) {
    const size_t bytes = num_blocks * kBlockSize * s.num_kv_heads * s.head_dim * Info(s.dtype).block_bytes;
    k.assign(bytes, std::byte{0xff});  // NaN in both types: an entry that must not be read shows
    v.assign(bytes, std::byte{0xff});
  }
  KvView View() { return {shape.dtype, k.data(), v.data(), kBlockSize, shape.num_kv_heads, shape.head_dim}; }
  // Writes position `pos` of the sequence at `slot`.
  void Write(const Sequence& sequence, size_t pos, const uint32_t* blocks, uint32_t slot) {
    const KvWriteRow row{blocks, slot};
    const size_t width = sequence.Width();
    WriteKv(sequence.k.data() + pos * width, width, sequence.v.data() + pos * width, width, {&row, 1},
            View());
  }
};

size_t QWidth(const AttentionShape& shape) { return shape.num_heads * shape.head_dim; }

AttentionArgs ArgsFor(const AttentionShape& shape, const std::vector<float>& q,
                      std::span<const AttentionRow> rows, const KvView& kv, float* out) {
  return {.q = q.data(),
          .q_stride = QWidth(shape),
          .num_heads = shape.num_heads,
          .rows = rows,
          .kv = kv,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
          .out = out,
          .out_stride = QWidth(shape)};
}

std::vector<float> Compute(const AttentionShape& shape, const std::vector<float>& q,
                           std::span<const AttentionRow> rows, const KvView& kv, int threads = 1) {
  ThreadPool pool(threads);
  AttentionScratch scratch;
  std::vector<float> out(rows.size() * QWidth(shape));
  Attention(ArgsFor(shape, q, rows, kv, out.data()), scratch, pool);
  return out;
}

// Twenty blocks in a scrambled order, enough for 320 positions.
std::vector<uint32_t> ScrambledBlocks(uint32_t seed) {
  std::vector<uint32_t> blocks(20);
  std::iota(blocks.begin(), blocks.end(), 0u);
  std::mt19937 random(seed);
  std::shuffle(blocks.begin(), blocks.end(), random);
  return blocks;
}

// A score is off by (head_dim / 16 + 6) roundings of its magnitude; a weight by that, twice (numerator and
// sum), plus exp's 4e-7 twice, the sum's and the rescalings' roundings; the sum over entries adds one
// rounding each.
double Bound(const AttentionShape& shape, size_t path, double score_magnitude, double magnitude) {
  const double score = (static_cast<double>(shape.head_dim) / 16 + 6) * kUnitRoundoff * score_magnitude;
  const double chunks = static_cast<double>(path) / kAttentionChunk + 1;
  const double weights = 2 * score + (2 + 2 * chunks) * 4e-7;
  return (weights +
          (std::min<double>(static_cast<double>(path), kAttentionChunk) + 4 * chunks + 8) * kUnitRoundoff) *
         magnitude;
}

class AttentionTest : public ::testing::TestWithParam<AttentionShape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, ::testing::ValuesIn(kAttentionShapes),
                         [](const auto& type) { return std::string(type.param.name); });

TEST_P(AttentionTest, EqualsReferenceOverAllPathLengthsOnEveryInstructionSet) {
  const AttentionShape shape = GetParam();
  for (size_t path : kPathLengths) {
    const Sequence sequence(shape, path, 1);
    Pool pool(shape, 20);
    const std::vector<uint32_t> blocks = ScrambledBlocks(2);
    for (size_t pos = 0; pos < path; ++pos)
      pool.Write(sequence, pos, blocks.data(), static_cast<uint32_t>(pos));
    const std::vector<float> q = RandomFloats(QWidth(shape), 3);
    const std::vector<AttentionRow> rows = {{blocks.data(), static_cast<uint32_t>(path), {}}};
    const AttentionReference wanted = AttentionRef(ArgsFor(shape, q, rows, pool.View(), nullptr));
    std::vector<float> first;
    ForEachInstructionSet([&] {
      const std::vector<float> out = Compute(shape, q, rows, pool.View());
      for (size_t i = 0; i < out.size(); ++i) {
        const double bound =
            Bound(shape, path, wanted.score_magnitude[i / shape.head_dim], wanted.magnitude[i]);
        ASSERT_NEAR(out[i], wanted.out[i], bound) << "path " << path << " value " << i;
      }
      if (first.empty()) first = out;
      ASSERT_TRUE(SameBits(first, out)) << "path " << path;
    });
  }
}

// Chunked prefill, decode and verification of one sequence: each row's bits are those of the row alone.
TEST_P(AttentionTest, B001_PrefillDecodeAndVerificationGiveTheSameBits) {
  const AttentionShape shape = GetParam();
  constexpr size_t kLength = 150;
  const Sequence sequence(shape, kLength, 5);
  Pool pool(shape, 20);
  const std::vector<uint32_t> blocks = ScrambledBlocks(6);
  for (uint32_t pos = 0; pos < kLength; ++pos) pool.Write(sequence, pos, blocks.data(), pos);
  const std::vector<float> q = RandomFloats(kLength * QWidth(shape), 7);
  std::vector<uint32_t> slots(kLength);
  std::iota(slots.begin(), slots.end(), 0u);
  std::vector<AttentionRow> as_prefix, as_tail, as_window;
  for (uint32_t pos = 0; pos < kLength; ++pos) {
    as_prefix.push_back({blocks.data(), pos + 1, {}});
    as_tail.push_back({blocks.data(), 0, std::span(slots).first(pos + 1)});
    as_window.push_back({blocks.data(), pos / 7 * 7, std::span(slots).subspan(pos / 7 * 7, pos % 7 + 1)});
  }

  const std::vector<float> wanted = Compute(shape, q, as_prefix, pool.View());

  EXPECT_TRUE(SameBits(wanted, Compute(shape, q, as_tail, pool.View())));
  EXPECT_TRUE(SameBits(wanted, Compute(shape, q, as_window, pool.View())));
  EXPECT_TRUE(SameBits(wanted, Compute(shape, q, as_prefix, pool.View(), 3)));
  for (size_t pos : {0, 63, 64, 149}) {
    const std::vector<float> row_q(q.begin() + pos * QWidth(shape), q.begin() + (pos + 1) * QWidth(shape));
    const std::vector<float> alone = Compute(shape, row_q, std::span(as_tail).subspan(pos, 1), pool.View());
    const std::vector<float> row(wanted.begin() + pos * QWidth(shape),
                                 wanted.begin() + (pos + 1) * QWidth(shape));
    EXPECT_TRUE(SameBits(row, alone)) << "position " << pos;
  }
}

// A tree: two branches continue position 69. The second branch's rows sit at slots beyond their positions;
// their bits are those of a plain sequence with the same contents in other blocks.
TEST_P(AttentionTest, ABranchAtOtherSlotsEqualsTheSamePathInOrder) {
  const AttentionShape shape = GetParam();
  constexpr uint32_t kCommitted = 70;
  const Sequence main(shape, kCommitted + 2, 11);
  const Sequence branch(shape, 2, 13);
  const std::vector<float> q = RandomFloats(QWidth(shape), 15);

  Pool pool(shape, 20);
  const std::vector<uint32_t> blocks = ScrambledBlocks(16);
  for (uint32_t pos = 0; pos < kCommitted + 2; ++pos) pool.Write(main, pos, blocks.data(), pos);
  pool.Write(branch, 0, blocks.data(), kCommitted + 5);
  pool.Write(branch, 1, blocks.data(), kCommitted + 2);
  const std::vector<uint32_t> tail = {kCommitted + 5, kCommitted + 2};
  const std::vector<AttentionRow> tree = {{blocks.data(), kCommitted, tail}};

  Pool other(shape, 20);
  const std::vector<uint32_t> other_blocks = ScrambledBlocks(17);
  for (uint32_t pos = 0; pos < kCommitted; ++pos) other.Write(main, pos, other_blocks.data(), pos);
  other.Write(branch, 0, other_blocks.data(), kCommitted);
  other.Write(branch, 1, other_blocks.data(), kCommitted + 1);
  const std::vector<AttentionRow> plain = {{other_blocks.data(), kCommitted + 2, {}}};

  EXPECT_TRUE(SameBits(Compute(shape, q, plain, other.View()), Compute(shape, q, tree, pool.View())));
}

// All rows of a tree in one call, which share the loads of their common part but not of their branches.
TEST_P(AttentionTest, SiblingBranchesInOneCallSeeOnlyTheirOwnAncestors) {
  const AttentionShape shape = GetParam();
  for (uint32_t committed : {3u, 62u, 70u}) {
    const Sequence sequence(shape, committed + 6, 18);
    Pool pool(shape, 20);
    const std::vector<uint32_t> blocks = ScrambledBlocks(19);
    for (uint32_t slot = 0; slot < committed + 6; ++slot) pool.Write(sequence, slot, blocks.data(), slot);
    const auto slots = [&](std::initializer_list<uint32_t> beyond) {
      std::vector<uint32_t> tail;
      for (uint32_t slot : beyond) tail.push_back(committed + slot);
      return tail;
    };
    // Root 0 with children 1 and 2; 3 and 4 continue 1; 5 continues 2.
    const std::vector<std::vector<uint32_t>> tails = {slots({0}),       slots({0, 1}),    slots({0, 2}),
                                                      slots({0, 1, 3}), slots({0, 1, 4}), slots({0, 2, 5})};
    std::vector<AttentionRow> rows;
    for (const auto& tail : tails) rows.push_back({blocks.data(), committed, tail});
    const std::vector<float> q = RandomFloats(rows.size() * QWidth(shape), 20);

    const std::vector<float> together = Compute(shape, q, rows, pool.View());

    for (size_t r = 0; r < rows.size(); ++r) {
      const std::vector<float> row_q(q.begin() + r * QWidth(shape), q.begin() + (r + 1) * QWidth(shape));
      const std::vector<float> row(together.begin() + r * QWidth(shape),
                                   together.begin() + (r + 1) * QWidth(shape));
      EXPECT_TRUE(SameBits(row, Compute(shape, row_q, {&rows[r], 1}, pool.View())))
          << "row " << r << " after " << committed;
    }
  }
}

TEST_P(AttentionTest, RowsOfDifferentSequencesShareACallWithoutMixing) {
  const AttentionShape shape = GetParam();
  const Sequence a(shape, 90, 21);
  const Sequence b(shape, 3, 23);
  Pool pool(shape, 20);
  const std::vector<uint32_t> a_blocks = {7, 2, 19, 0, 5, 11};
  const std::vector<uint32_t> b_blocks = {3};
  for (uint32_t pos = 0; pos < 90; ++pos) pool.Write(a, pos, a_blocks.data(), pos);
  for (uint32_t pos = 0; pos < 3; ++pos) pool.Write(b, pos, b_blocks.data(), pos);
  const std::vector<AttentionRow> rows = {{b_blocks.data(), 2, {}},
                                          {a_blocks.data(), 90, {}},
                                          {a_blocks.data(), 65, {}},
                                          {b_blocks.data(), 3, {}}};
  const std::vector<float> q = RandomFloats(rows.size() * QWidth(shape), 25);

  const std::vector<float> together = Compute(shape, q, rows, pool.View(), 2);

  for (size_t r = 0; r < rows.size(); ++r) {
    const std::vector<float> row_q(q.begin() + r * QWidth(shape), q.begin() + (r + 1) * QWidth(shape));
    const std::vector<float> row(together.begin() + r * QWidth(shape),
                                 together.begin() + (r + 1) * QWidth(shape));
    EXPECT_TRUE(SameBits(row, Compute(shape, row_q, {&rows[r], 1}, pool.View()))) << "row " << r;
    for (float value : row) EXPECT_TRUE(std::isfinite(value));
  }
}

TEST_P(AttentionTest, WritesOnlyItsRowsAndHonoursStrides) {
  const AttentionShape shape = GetParam();
  const Sequence sequence(shape, 20, 31);
  Pool pool(shape, 20);
  const std::vector<uint32_t> blocks = ScrambledBlocks(32);
  for (uint32_t pos = 0; pos < 20; ++pos) pool.Write(sequence, pos, blocks.data(), pos);
  const std::vector<AttentionRow> rows = {{blocks.data(), 20, {}}, {blocks.data(), 3, {}}};
  const size_t width = QWidth(shape);
  const size_t stride = width + 3;
  const std::vector<float> q = RandomFloats(2 * stride, 33);
  std::vector<float> dense_q(q.begin(), q.begin() + width);
  dense_q.insert(dense_q.end(), q.begin() + stride, q.begin() + stride + width);
  const std::vector<float> wanted = Compute(shape, dense_q, rows, pool.View());
  ForEachInstructionSet([&] {
    GuardedBuffer<float> out(stride + width);
    out[width] = -3.0f;
    AttentionArgs args = ArgsFor(shape, q, rows, pool.View(), out.data());
    args.q_stride = args.out_stride = stride;
    ThreadPool threads(1);
    AttentionScratch scratch;
    scratch.Reserve(shape.num_heads, shape.num_kv_heads, shape.head_dim, 1);

    Attention(args, scratch, threads);

    out.CheckGuards();
    EXPECT_EQ(out[width], -3.0f);
    const std::vector<float> first(out.data(), out.data() + width);
    EXPECT_TRUE(SameBits({wanted.begin(), wanted.begin() + width}, first));
    const std::vector<float> second(out.data() + stride, out.data() + stride + width);
    EXPECT_TRUE(SameBits({wanted.begin() + width, wanted.end()}, second));
  });
}

constexpr AttentionShape kOneHead = {"one", 1, 1, 2, DType::kF32};

TEST(Attention, OneVisibleEntryReturnsItsValue) {
  Pool pool(kOneHead, 1);
  const Sequence sequence(kOneHead, 1, 41);
  const std::vector<uint32_t> blocks = {0};
  pool.Write(sequence, 0, blocks.data(), 0);
  const std::vector<uint32_t> tail = {0};
  const std::vector<AttentionRow> rows = {{blocks.data(), 0, tail}};

  EXPECT_TRUE(SameBits(Compute(kOneHead, {0.5f, 0.25f}, rows, pool.View()), sequence.v));
}

TEST(Attention, B176_NanInQueryOrCacheReachesTheOutput) {
  for (bool in_query : {true, false}) {
    for (size_t nan_pos : {0, 1, 69}) {
      Pool pool(kOneHead, 10);
      Sequence sequence(kOneHead, 70, 43);
      std::vector<float> q = {1.0f, 1.0f};
      const float nan = std::numeric_limits<float>::quiet_NaN();
      (in_query ? q[0] : sequence.k[nan_pos * 2]) = nan;
      const std::vector<uint32_t> blocks = {9, 8, 7, 6, 5};
      for (uint32_t pos = 0; pos < 70; ++pos) pool.Write(sequence, pos, blocks.data(), pos);
      const std::vector<AttentionRow> rows = {{blocks.data(), 70, {}}};
      ForEachInstructionSet([&] { EXPECT_TRUE(std::isnan(Compute(kOneHead, q, rows, pool.View())[0])); });
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Pool pool(kOneHead, 1);
  Sequence sequence(kOneHead, 2, 45);
  sequence.k = {1000.0f, 0.0f, -1000.0f, 0.0f};
  const std::vector<uint32_t> blocks = {0};
  for (uint32_t pos = 0; pos < 2; ++pos) pool.Write(sequence, pos, blocks.data(), pos);
  const std::vector<AttentionRow> rows = {{blocks.data(), 2, {}}};

  const std::vector<float> out = Compute(kOneHead, {1000.0f, 0.0f}, rows, pool.View());

  EXPECT_TRUE(SameBits(out, {sequence.v[0], sequence.v[1]}));
}

TEST(Attention, NoRowsWriteNothing) {
  Pool pool(kOneHead, 1);
  EXPECT_TRUE(Compute(kOneHead, {}, {}, pool.View()).empty());
}

TEST(WriteKv, RoundsToNearestEvenAndTouchesOnlyItsSlots) {
  const AttentionShape shape = {"f16", 2, 2, 3, DType::kF16};
  Pool pool(shape, 3);
  const std::vector<std::byte> before = pool.k;
  const std::vector<uint32_t> blocks = {2, 1};
  const std::vector<float> values = {1.0f,     2049.0f, 2051.0f,
                                     70000.0f, -0.0f,   1e-8f};  // ties both ways, overflow
  const KvWriteRow row{blocks.data(), 17};

  WriteKv(values.data(), 6, values.data(), 6, {&row, 1}, pool.View());

  const size_t at = (1 * kBlockSize + 1) * 6 * 2;
  uint16_t half[6];
  std::memcpy(half, pool.k.data() + at, sizeof(half));
  EXPECT_EQ(HalfToFloat(half[0]), 1.0f);
  EXPECT_EQ(HalfToFloat(half[1]), 2048.0f);
  EXPECT_EQ(HalfToFloat(half[2]), 2052.0f);
  EXPECT_TRUE(std::isinf(HalfToFloat(half[3])));
  EXPECT_EQ(half[4], 0x8000);
  EXPECT_EQ(HalfToFloat(half[5]), 0.0f);
  EXPECT_EQ(std::memcmp(pool.k.data(), pool.v.data(), pool.k.size()), 0);
  std::memcpy(pool.k.data() + at, before.data() + at, sizeof(half));
  EXPECT_EQ(pool.k, before);
}

}  // namespace
}  // namespace paceline::kernels
