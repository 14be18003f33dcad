#include "tests/numerics/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "common/base/check.h"
#include "tests/support/shared_data.h"

namespace paceline::testing {
namespace {

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T Next() {
    CHECK_LE(offset_ + sizeof(T), bytes_.size()) << "the golden file is short";
    T value;
    std::memcpy(&value, bytes_.data() + offset_, sizeof(T));
    offset_ += sizeof(T);
    return value;
  }
  bool AtEnd() const { return offset_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t offset_ = 0;
};

}  // namespace

std::vector<float> ReadFloats(const std::string& path) {
  const std::string bytes = ReadFileOrDie(path);
  Reader reader(bytes);
  std::vector<float> values;
  while (!reader.AtEnd()) values.push_back(reader.Next<float>());
  return values;
}

Golden ReadGolden(const std::string& path) {
  const std::string bytes = ReadFileOrDie(path);
  Reader reader(bytes);
  Golden golden;
  golden.rows.resize(reader.Next<int32_t>());
  golden.sampled_ids.resize(reader.Next<int32_t>());
  for (TokenId& id : golden.sampled_ids) id = reader.Next<int32_t>();
  for (Golden::Row& row : golden.rows) {
    row.argmax = reader.Next<int32_t>();
    row.largest = reader.Next<float>();
    row.gap = reader.Next<float>();
    for (size_t i = 0; i < golden.sampled_ids.size(); ++i) row.sampled.push_back(reader.Next<float>());
  }
  CHECK(reader.AtEnd()) << path << " is longer than its header says";
  return golden;
}

Distance Compare(const Golden& golden, const Golden::Row& want, std::span<const float> logits) {
  double dot = 0, want_square = 0, got_square = 0;
  Distance distance;
  const auto add = [&](double expected, double got) {
    dot += expected * got;
    want_square += expected * expected;
    got_square += got * got;
    distance.largest_difference = std::max(distance.largest_difference, std::abs(expected - got));
  };
  add(want.largest, logits[want.argmax]);
  for (size_t i = 0; i < golden.sampled_ids.size(); ++i) add(want.sampled[i], logits[golden.sampled_ids[i]]);
  distance.cosine = dot / std::sqrt(want_square * got_square);
  return distance;
}

}  // namespace paceline::testing
