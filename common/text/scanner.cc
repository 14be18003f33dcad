#include "common/text/scanner.h"

#include <string>

namespace paceline {
namespace {

class LiteralScanner : public Scanner {
 public:
  explicit LiteralScanner(std::u32string literal) : literal_(std::move(literal)) {}

  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    if (literal_.empty()) return OkStatus();
    for (size_t at = text.find(literal_); at != text.npos; at = text.find(literal_, at + literal_.size())) {
      matches->push_back({at, at + literal_.size()});
    }
    return OkStatus();
  }

 private:
  std::u32string literal_;
};

}  // namespace

std::unique_ptr<Scanner> MakeLiteralScanner(std::u32string literal) {
  return std::make_unique<LiteralScanner>(std::move(literal));
}

StatusOr<std::unique_ptr<Scanner>> MakeScanner(std::string_view pattern) {
  if (std::unique_ptr<Scanner> known = MakeKnownScanner(pattern)) return known;
  if (std::unique_ptr<Scanner> simple = MakeClassScanner(pattern)) return simple;
  return MakeRegexScanner(pattern);
}

}  // namespace paceline
