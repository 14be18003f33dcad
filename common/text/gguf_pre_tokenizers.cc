// The pre-tokenizers that tokenizer.ggml.pre names, as the chains of their models' own tokenizer files.
//
// GGUF only stores a name, so the patterns have to be known here; an unknown name is refused, because any
// guess would give wrong ids without a sign.

#include <algorithm>
#include <array>
#include <string>

#include "common/text/scanner.h"
#include "common/text/tokenizer_loaders.h"

namespace paceline {
namespace {

// A letter class of the DeepSeek LLM tokenizer: the cased letters of most scripts, with the gaps its file
// has.
constexpr std::string_view kDeepSeekLlmLetters =
    R"(\s?[)"
    R"(\x{41}-\x{5a}\x{61}-\x{7a}\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf})"
    R"(\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}-\x{377}\x{37b}-\x{37d}\x{37f}\x{386})"
    R"(\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f})"
    R"(\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba})"
    R"(\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15})"
    R"(\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}\x{1f59}\x{1f5b}\x{1f5d})"
    R"(\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc})"
    R"(\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102})"
    R"(\x{2107}\x{210a}-\x{2113}\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d})"
    R"(\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-\x{2149}\x{214e}\x{2183}-\x{2184})"
    R"(\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}-\x{2cf3}\x{a640}-\x{a66d})"
    R"(\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf})"
    R"(\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f})"
    R"(\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-\x{10cf2}\x{118a0}-\x{118df})"
    R"(\x{1e900}-\x{1e943})"
    R"(]+)";
// ASCII and full-width punctuation, general punctuation quotes, CJK space to full stop.
constexpr std::string_view kDeepSeekLlmPunctuation =
    R"(\s?[!-/:-~\x{ff01}-\x{ff0f}\x{ff1a}-\x{ff5e}\x{2018}-\x{201f}\x{3000}-\x{3002}]+)";
constexpr std::string_view kDeepSeekLlmCjk = R"([\x{4e00}-\x{9fa5}\x{800}-\x{4e00}\x{ac00}-\x{d7ff}]+)";
constexpr std::string_view kDeepSeekV3Cjk = R"([\x{4e00}-\x{9fa5}\x{3040}-\x{309f}\x{30a0}-\x{30ff}]+)";

PreTokenizerStep Split(std::string_view pattern) {
  return {.kind = PreTokenizerStep::Kind::kSplit, .pattern = std::string(pattern)};
}

PreTokenizerStep Bytes(bool use_regex) {
  return {.kind = PreTokenizerStep::Kind::kByteLevel, .use_regex = use_regex};
}

using Steps = std::vector<PreTokenizerStep>;

Steps OneSplit(std::string_view pattern) { return {Split(pattern), Bytes(false)}; }
Steps Llama3() { return OneSplit(kLlama3Pattern); }
Steps Qwen2() { return OneSplit(kQwen2Pattern); }
Steps Qwen35() { return OneSplit(kQwen35Pattern); }
Steps Tekken() { return OneSplit(kTekkenPattern); }
Steps Gpt4o() { return OneSplit(kGpt4oPattern); }
Steps Gpt2() { return {Bytes(true)}; }
Steps SmolLm() { return {Split(R"(\p{N})"), Bytes(true)}; }

Steps DeepSeekV3() {
  return {Split(R"(\p{N}{1,3})"), Split(kDeepSeekV3Cjk), Split(kDeepSeekV3Pattern), Bytes(false)};
}

PreTokenizerStep Digits(bool individual) {
  return {.kind = PreTokenizerStep::Kind::kDigits, .individual_digits = individual};
}

Steps DeepSeekLlm() {
  return {Split(R"([\r\n])"), Split(kDeepSeekLlmLetters), Split(kDeepSeekLlmPunctuation),
          Split(R"(\s+$)"),   Split(kDeepSeekLlmCjk),     Digits(/*individual=*/true),
          Bytes(false)};
}

Steps DeepSeekCoder() {
  return {Split(R"([\r\n])"),     Split(R"(\s?\p{L}+)"), Split(R"(\s?\p{P}+)"),
          Split(kDeepSeekLlmCjk), Split(R"(\p{N})"),     Bytes(false)};
}

// Its file looks for digits behind the byte-level step, so bytes whose alphabet is a digit (B2 is a
// superscript two) count.
Steps Falcon() {
  return {{.kind = PreTokenizerStep::Kind::kPunctuation, .behavior = SplitBehavior::kContiguous},
          Bytes(true),
          Digits(/*individual=*/false),
          Split("[0-9][0-9][0-9]")};
}

Steps Default() {
  return {Split(R"([\p{P}\$\+<=>\^~\|]+)"), Split(kGpt2Pattern), Split(R"(\p{N}+)"), Split("[0-9][0-9][0-9]"),
          Bytes(false)};
}

struct Family {
  std::string_view name;
  Steps (*steps)();
  bool ignore_merges = false;
  bool adds_bos = false;
  bool composes = false;
};

constexpr std::array kFamilies = {
    Family{"default", Default},
    Family{"llama3", Llama3, true, true},
    Family{"llama-v3", Llama3, true, true},
    Family{"llama-bpe", Llama3, true, true},
    Family{"falcon3", Llama3, true, true},
    Family{"pixtral", Llama3, true, true},
    Family{"qwen2", Qwen2, false, false, true},
    Family{"deepseek-r1-qwen", Qwen2, false, false, true},
    Family{"megrez", Qwen2},
    Family{"stablelm2", Qwen2},
    Family{"hunyuan", Qwen2},
    Family{"qwen35", Qwen35, false, false, true},
    Family{"smollm", SmolLm},
    Family{"codeshell", SmolLm},
    Family{"starcoder", SmolLm},
    Family{"refact", SmolLm},
    Family{"command-r", SmolLm},
    Family{"exaone", SmolLm},
    Family{"gpt-2", Gpt2},
    Family{"phi-2", Gpt2},
    Family{"mpt", Gpt2},
    Family{"olmo", Gpt2},
    Family{"jais", Gpt2},
    Family{"deepseek-llm", DeepSeekLlm},
    Family{"deepseek-coder", DeepSeekCoder},
    Family{"deepseek-v3", DeepSeekV3},
    Family{"tekken", Tekken, true, true},
    Family{"gpt-4o", Gpt4o},
    Family{"llama4", Gpt4o},
    Family{"falcon", Falcon},
};

std::string KnownNames() {
  std::string names;
  for (const Family& family : kFamilies) names += (names.empty() ? "" : ", ") + std::string(family.name);
  return names;
}

}  // namespace

StatusOr<GgufPreTokenizer> GgufPreTokenizerNamed(std::string_view name) {
  const auto* family =
      std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) { return f.name == name; });
  if (family == kFamilies.end()) {
    return InvalidArgumentError("tokenizer.ggml.pre: '{}' is not supported; want one of: {}", name,
                                KnownNames());
  }
  return GgufPreTokenizer{.steps = family->steps(),
                          .ignore_merges = family->ignore_merges,
                          .adds_bos = family->adds_bos,
                          .composes = family->composes};
}

}  // namespace paceline
