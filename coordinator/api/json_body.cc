#include "coordinator/api/json_body.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace paceline {
namespace {

using nlohmann::ordered_json;

// Builds the value from the parser's events. nlohmann's own builder looks each key up in a list, which is
// quadratic for an ordered object, and has no bound on depth.
class Builder : public nlohmann::json_sax<ordered_json> {
 public:
  Builder(uint32_t depth_max, ordered_json* root) : depth_max_(depth_max), root_(root) {}

  MaybeError TakeError() { return std::move(error_); }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t&) override { return Add(value); }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return Open(ordered_json::object()); }
  bool end_object() override { return Close(); }
  bool start_array(size_t) override { return Open(ordered_json::array()); }
  bool end_array() override { return Close(); }

  bool key(string_t& value) override {
    if (!open_.back().keys.insert(value).second) {
      error_ = ApiError::Invalid("", "the JSON body has a key twice in one object: {}", value.substr(0, 64));
      return false;
    }
    key_ = std::move(value);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& cause) override {
    std::string reason = cause.what();
    // What comes next in the library's text quotes the body.
    reason = reason.substr(0, reason.find("; last read"));
    const size_t colon = reason.rfind(": ");
    if (colon != std::string::npos) reason = reason.substr(colon + 2);
    error_ = ApiError::Invalid("", "the body is not valid JSON in UTF-8, at byte {}: {}", position,
                               reason.substr(0, 160));
    return false;
  }

 private:
  struct Level {
    ordered_json* value;
    absl::flat_hash_set<std::string> keys;
  };

  template <typename Value>
  ordered_json* Place(Value&& value) {
    if (open_.empty()) {
      *root_ = std::forward<Value>(value);
      return root_;
    }
    ordered_json& parent = *open_.back().value;
    if (parent.is_array()) {
      auto& array = parent.get_ref<ordered_json::array_t&>();
      return &array.emplace_back(std::forward<Value>(value));
    }
    auto& object = parent.get_ref<ordered_json::object_t&>();
    static_cast<ordered_json::object_t::Container&>(object).emplace_back(
        std::move(key_), ordered_json(std::forward<Value>(value)));
    return &object.back().second;
  }

  template <typename Value>
  bool Add(Value&& value) {
    Place(std::forward<Value>(value));
    return true;
  }

  bool Open(ordered_json value) {
    if (open_.size() >= depth_max_) {
      error_ = ApiError::Invalid("", "the JSON body is nested deeper than {} levels", depth_max_);
      return false;
    }
    // The pointer stays good: a container grows only while it is the innermost one that is open.
    ordered_json* placed = Place(std::move(value));
    open_.push_back({placed, {}});
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const uint32_t depth_max_;
  ordered_json* root_;
  std::vector<Level> open_;
  std::string key_;
  MaybeError error_;
};

}  // namespace

MaybeError ParseJsonBody(std::string_view body, uint32_t depth_max, ordered_json* out) {
  Builder builder(depth_max, out);
  try {
    if (ordered_json::sax_parse(body.begin(), body.end(), &builder)) return std::nullopt;
  } catch (const std::exception& error) {
    return ApiError::Invalid("", "the body cannot be read as JSON: {}", error.what());
  }
  MaybeError error = builder.TakeError();
  return error ? error : ApiError::Invalid("", "the body is not valid JSON");
}

}  // namespace paceline
