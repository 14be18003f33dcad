// Patterns that are single classes in a row, read into sets of code points: linear, whatever the text.

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "common/text/scanner.h"
#include "common/text/unicode.h"

namespace paceline {
namespace {

constexpr size_t kUnbounded = std::numeric_limits<size_t>::max();

class CodePointSet {
 public:
  bool Contains(char32_t c) const { return InRanges(c) != negated_; }
  void AddMask(CategoryMask mask) { mask_ |= mask; }
  void AddOutsideMask(CategoryMask mask) { outside_masks_.push_back(mask); }
  void AddRange(char32_t first, char32_t last) { ranges_.push_back({first, last}); }
  void Negate() { negated_ = true; }

 private:
  bool InRanges(char32_t c) const {
    const CategoryMask mask = MaskOf(c);
    if (mask & mask_) return true;
    for (const auto& [first, last] : ranges_) {
      if (c >= first && c <= last) return true;
    }
    return std::any_of(outside_masks_.begin(), outside_masks_.end(),
                       [&](CategoryMask outside) { return (mask & outside) == 0; });
  }

  CategoryMask mask_ = 0;
  std::vector<CategoryMask> outside_masks_;  // \S, \P{..}
  std::vector<std::pair<char32_t, char32_t>> ranges_;
  bool negated_ = false;
};

struct Item {
  CodePointSet set;
  size_t min = 1;
  size_t max = 1;
};

struct ParsedPattern {
  std::vector<Item> items;
  bool to_line_end = false;  // `$` at the end; Ruby's, so it also holds in front of a newline
};

// Reads the patterns this file can run; anything else is nullopt, never a guess.
class ClassPatternParser {
 public:
  explicit ClassPatternParser(std::u32string_view pattern) : rest_(pattern) {}

  std::optional<ParsedPattern> Parse() {
    ParsedPattern out;
    while (!rest_.empty()) {
      if (rest_ == U"$") {
        out.to_line_end = true;
        break;
      }
      Item item;
      if (!ParseSet(&item.set) || !ParseQuantifier(&item)) return std::nullopt;
      out.items.push_back(std::move(item));
    }
    return out;
  }

 private:
  bool Take(std::u32string_view prefix) {
    if (!rest_.starts_with(prefix)) return false;
    rest_.remove_prefix(prefix.size());
    return true;
  }

  char32_t TakeOne() {
    const char32_t c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  bool ParseSet(CodePointSet* set) {
    if (Take(U"[")) return ParseBracket(set);
    const char32_t c = rest_.front();
    if (c == U'\\') {
      char32_t literal = 0;
      bool is_class = false;
      if (!ParseEscape(set, &literal, &is_class)) return false;
      if (!is_class) set->AddRange(literal, literal);
      return true;
    }
    if (std::u32string_view(U".^$|()*+?{}]").find(c) != std::u32string_view::npos) return false;
    set->AddRange(c, c);
    TakeOne();
    return true;
  }

  bool ParseBracket(CodePointSet* set) {
    if (Take(U"^")) set->Negate();
    while (!rest_.empty() && rest_.front() != U']') {
      char32_t first = 0;
      bool is_class = false;
      if (!ParseMember(set, &first, &is_class)) return false;
      if (is_class) continue;
      char32_t last = first;
      if (rest_.size() >= 2 && rest_[0] == U'-' && rest_[1] != U']') {
        TakeOne();
        if (!ParseMember(set, &last, &is_class) || is_class || last < first) return false;
      }
      set->AddRange(first, last);
    }
    return Take(U"]");
  }

  // Nested sets and intersections ([, &&) and POSIX classes are Oniguruma's own: not here.
  bool ParseMember(CodePointSet* set, char32_t* literal, bool* is_class) {
    if (rest_.empty() || rest_.front() == U'[' || rest_.starts_with(U"&&")) return false;
    if (rest_.front() == U'\\') return ParseEscape(set, literal, is_class);
    *literal = TakeOne();
    return true;
  }

  bool ParseEscape(CodePointSet* set, char32_t* literal, bool* is_class) {
    TakeOne();
    if (rest_.empty()) return false;
    const char32_t c = TakeOne();
    *is_class = true;
    switch (c) {
      case U's':
        set->AddMask(kWhiteSpace);
        return true;
      case U'S':
        set->AddOutsideMask(kWhiteSpace);
        return true;
      case U'd':
        set->AddMask(kDecimalNumber);
        return true;
      case U'p':
      case U'P':
        return ParseProperty(set, c == U'P');
      default:
        *is_class = false;
        return ParseLiteralEscape(c, literal);
    }
  }

  bool ParseLiteralEscape(char32_t c, char32_t* literal) {
    if (c == U'n' || c == U'r' || c == U't') {
      *literal = c == U'n' ? U'\n' : c == U'r' ? U'\r' : U'\t';
      return true;
    }
    if (c == U'x') return Take(U"{") && ParseHex(literal);
    *literal = c;
    return c < 0x80 && IsBertPunctuation(c);  // other letters and digits mean something else
  }

  bool ParseHex(char32_t* out) {
    uint32_t value = 0;
    size_t digits = 0;
    while (!rest_.empty() && rest_.front() != U'}') {
      const char32_t c = TakeOne() | 32;  // lower case; digits keep their value
      if (!((c >= U'0' && c <= U'9') || (c >= U'a' && c <= U'f')) || ++digits > 6) return false;
      value = value * 16 + (c <= U'9' ? c - U'0' : c - U'a' + 10);
    }
    *out = value;
    return digits > 0 && value < 0x110000 && Take(U"}");
  }

  bool ParseProperty(CodePointSet* set, bool outside) {
    static constexpr std::array<std::pair<std::u32string_view, CategoryMask>, 16> kProperties = {{
        {U"L", kLetter},
        {U"Lu", kUppercase},
        {U"Ll", kLowercase},
        {U"Lt", kTitlecase},
        {U"Lm", kModifierLetter},
        {U"Lo", kOtherLetter},
        {U"M", kMark},
        {U"Mn", kNonspacingMark},
        {U"N", kNumber},
        {U"Nd", kDecimalNumber},
        {U"Nl", kLetterNumber},
        {U"P", kPunctuation},
        {U"Pc", kConnectorPunctuation},
        {U"S", kSymbol},
        {U"Z", kSeparator},
        {U"C", kOther},
    }};
    if (!Take(U"{")) return false;
    const size_t close = rest_.find(U'}');
    if (close == rest_.npos) return false;
    const std::u32string_view name = rest_.substr(0, close);
    rest_.remove_prefix(close + 1);
    for (const auto& [known, mask] : kProperties) {
      if (name != known) continue;
      outside ? set->AddOutsideMask(mask) : set->AddMask(mask);
      return true;
    }
    return false;
  }

  bool ParseQuantifier(Item* item) {
    if (Take(U"?")) {
      item->min = 0;
    } else if (Take(U"+")) {
      item->max = kUnbounded;
    } else if (Take(U"{")) {
      if (!ParseCount(&item->min)) return false;
      item->max = item->min;
      if (Take(U",")) {
        item->max = kUnbounded;
        if (!rest_.starts_with(U"}") && !ParseCount(&item->max)) return false;
      }
      if (!Take(U"}") || item->max < item->min) return false;
    }
    // A second quantifier makes the first lazy or possessive, or repeats it.
    return rest_.empty() || std::u32string_view(U"?+*{").find(rest_.front()) == std::u32string_view::npos;
  }

  bool ParseCount(size_t* count) {
    size_t digits = 0;
    for (*count = 0; !rest_.empty() && rest_.front() >= U'0' && rest_.front() <= U'9'; ++digits) {
      if (digits == 4) return false;
      *count = *count * 10 + (TakeOne() - U'0');
    }
    return digits > 0;
  }

  std::u32string_view rest_;
};

// `Y{min,max}` behind an optional X: the run is greedy, and if it fails behind X it is tried without.
class RunScanner : public Scanner {
 public:
  RunScanner(std::optional<Item> lead, Item run) : lead_(std::move(lead)), run_(std::move(run)) {}

  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i < text.size();) {
      size_t end = i;
      if (lead_ && lead_->set.Contains(text[i])) end = RunEnd(text, i + 1);
      if (end <= i + 1 && (end = RunEnd(text, i)) == i) {
        ++i;
        continue;
      }
      matches->push_back({i, end});
      i = end;
    }
    return OkStatus();
  }

 private:
  // `from` itself when fewer than min follow.
  size_t RunEnd(std::u32string_view text, size_t from) const {
    size_t end = from;
    while (end < text.size() && end - from < run_.max && run_.set.Contains(text[end])) ++end;
    return end - from < run_.min ? from : end;
  }

  std::optional<Item> lead_;
  Item run_;
};

// `Y+$`: the part of each run that ends at the end of the text or in front of a newline.
class RunToLineEndScanner : public Scanner {
 public:
  explicit RunToLineEndScanner(CodePointSet set) : set_(std::move(set)) {}

  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i < text.size();) {
      size_t run_end = i;
      while (run_end < text.size() && set_.Contains(text[run_end])) ++run_end;
      size_t end = run_end;
      while (end > i && end < text.size() && text[end] != U'\n') --end;
      if (end > i) matches->push_back({i, end});
      i = end > i ? end : std::max(run_end, i + 1);
    }
    return OkStatus();
  }

 private:
  CodePointSet set_;
};

// One code point of each set in turn.
class FixedScanner : public Scanner {
 public:
  explicit FixedScanner(std::vector<Item> items) : items_(std::move(items)) {}

  Status FindAll(std::u32string_view text, std::vector<TextRange>* matches) const override {
    for (size_t i = 0; i + items_.size() <= text.size();) {
      size_t k = 0;
      while (k < items_.size() && items_[k].set.Contains(text[i + k])) ++k;
      if (k == items_.size()) matches->push_back({i, i + k});
      i += k == items_.size() ? k : 1;
    }
    return OkStatus();
  }

 private:
  std::vector<Item> items_;
};

bool IsOptional(const Item& item) { return item.min == 0 && item.max == 1; }
bool IsOne(const Item& item) { return item.min == 1 && item.max == 1; }

}  // namespace

std::unique_ptr<Scanner> MakeClassScanner(std::string_view pattern) {
  std::u32string code_points;
  if (!DecodeUtf8(pattern, &code_points)) return nullptr;
  std::optional<ParsedPattern> parsed = ClassPatternParser(code_points).Parse();
  if (!parsed || parsed->items.empty() || parsed->items.back().min == 0) return nullptr;
  std::vector<Item>& items = parsed->items;
  if (parsed->to_line_end) {
    const bool plus = items.size() == 1 && items[0].min == 1 && items[0].max == kUnbounded;
    return plus ? std::make_unique<RunToLineEndScanner>(std::move(items[0].set)) : nullptr;
  }
  if (items.size() == 1) return std::make_unique<RunScanner>(std::nullopt, std::move(items[0]));
  if (items.size() == 2 && IsOptional(items[0])) {
    return std::make_unique<RunScanner>(std::move(items[0]), std::move(items[1]));
  }
  if (items.size() <= 8 && std::all_of(items.begin(), items.end(), IsOne)) {
    return std::make_unique<FixedScanner>(std::move(items));
  }
  return nullptr;
}

}  // namespace paceline
