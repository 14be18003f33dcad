// StrongId: an integer with a type of its own, so that swapping two ids does not compile.
//
//   using StepId = StrongId<struct StepIdTag, uint64_t>;
//   StepId next(step.value() + 1);
#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <utility>

namespace paceline {

template <typename Tag, typename Int>
class StrongId {
 public:
  using Underlying = Int;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Int value) : value_(value) {}
  constexpr Int value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;
  // Ids that count (steps, sequences) advance; ids that name never call it.
  constexpr StrongId Next() const { return StrongId(static_cast<Int>(value_ + 1)); }

  template <typename H>
  friend H AbslHashValue(H h, const StrongId& id) {
    return H::combine(std::move(h), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, const StrongId& id) { return out << +id.value_; }

 private:
  Int value_ = 0;
};

}  // namespace paceline

template <typename Tag, typename Int>
struct std::hash<paceline::StrongId<Tag, Int>> {
  size_t operator()(const paceline::StrongId<Tag, Int>& id) const { return std::hash<Int>()(id.value()); }
};

template <typename Tag, typename Int>
struct fmt::formatter<paceline::StrongId<Tag, Int>> : fmt::formatter<Int> {
  template <typename Context>
  auto format(const paceline::StrongId<Tag, Int>& id, Context& context) const {
    return fmt::formatter<Int>::format(id.value(), context);
  }
};
