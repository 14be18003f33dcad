#include "common/model/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "common/model/printable.h"

namespace paceline {
namespace {

constexpr size_t kDimsMax = 16;

// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, "__metadata__": {"k": "v"}}
class Handler : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<SafetensorsRow> TakeRows() { return std::move(rows_); }
  const std::string& refusal() const { return refusal_; }

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("a bool"); }
  bool number_integer(number_integer_t) override { return Unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return Unexpected("a fraction or a number past 2^64");
  }
  bool binary(binary_t&) override { return Unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (state_ != State::kNumbers) return Unexpected("a number");
    std::vector<uint64_t>& numbers = field_ == "shape" ? rows_.back().shape : rows_.back().offsets;
    if (numbers.size() == kDimsMax) return Refuse(Where() + fmt::format(": more than {} numbers", kDimsMax));
    numbers.push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    if (state_ == State::kMetadata) return true;
    if (state_ != State::kRow || field_ != "dtype") return Unexpected("a string");
    rows_.back().dtype = value;
    return true;
  }

  bool start_object(size_t) override {
    if (state_ == State::kStart) return Enter(State::kTop);
    if (state_ != State::kTop) return Unexpected("an object");
    fields_.clear();
    if (name_ == "__metadata__") return Enter(State::kMetadata);
    rows_.emplace_back().name = name_;
    return Enter(State::kRow);
  }

  bool key(string_t& key) override {
    std::set<std::string>& seen = state_ == State::kTop ? names_ : fields_;
    if (!seen.insert(key).second) return Refuse("key " + Printable(key) + " is there twice in the header");
    if (state_ == State::kTop) name_ = key;
    if (state_ == State::kRow) {
      field_ = key;
      if (key != "dtype" && key != "shape" && key != "data_offsets")
        return Refuse(Where() + ": unknown field");
    }
    return true;
  }

  bool end_object() override {
    if (state_ == State::kTop) return Enter(State::kEnd);
    if (state_ == State::kRow && fields_.size() != 3) {
      return Refuse("tensor " + Printable(name_) + ": want dtype, shape and data_offsets");
    }
    return Enter(State::kTop);
  }

  bool start_array(size_t) override {
    if (state_ != State::kRow || field_ == "dtype") return Unexpected("an array");
    return Enter(State::kNumbers);
  }
  bool end_array() override { return Enter(State::kRow); }

  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) override {
    return Refuse(fmt::format("the header is not JSON at byte {}: {}", position, Printable(error.what())));
  }

 private:
  enum class State { kStart, kTop, kMetadata, kRow, kNumbers, kEnd };

  bool Enter(State state) {
    state_ = state;
    return true;
  }
  bool Refuse(std::string why) {
    refusal_ = std::move(why);
    return false;
  }
  std::string Where() const { return "tensor " + Printable(name_) + ", " + Printable(field_); }
  bool Unexpected(std::string_view what) {
    if (state_ == State::kRow || state_ == State::kNumbers)
      return Refuse(Where() + ": unexpected " + std::string(what));
    return Refuse(fmt::format("unexpected {} in the header near {}", what, Printable(name_)));
  }

  State state_ = State::kStart;
  std::string name_;   // key of the top object that is being read
  std::string field_;  // field of the row
  std::set<std::string> names_;
  std::set<std::string> fields_;  // seen in the current inner object
  std::vector<SafetensorsRow> rows_;
  std::string refusal_;
};

}  // namespace

StatusOr<std::vector<SafetensorsRow>> ParseSafetensorsHeader(std::string_view header) {
  // The library's lexer takes NUL for the end of the input and would drop what follows.
  if (header.find('\0') != std::string_view::npos) return InvalidArgumentError("the header holds a NUL byte");
  Handler handler;
  bool ok = false;
  try {
    ok = nlohmann::json::sax_parse(header.begin(), header.end(), &handler);
  } catch (const nlohmann::json::exception& error) {
    return InvalidArgumentError("the header is not JSON: {}", Printable(error.what()));
  }
  if (!ok) return InvalidArgumentError("{}", handler.refusal());
  std::vector<SafetensorsRow> rows = handler.TakeRows();
  for (const SafetensorsRow& row : rows) {
    if (row.offsets.size() != 2) {
      return InvalidArgumentError("tensor {}: want two data_offsets, found {}", Printable(row.name),
                                  row.offsets.size());
    }
  }
  return rows;
}

}  // namespace paceline
