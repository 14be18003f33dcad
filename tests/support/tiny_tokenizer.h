// The byte-level BPE tokenizer of the tiny models, as GGUF metadata.
#pragma once

#include <cstdint>

#include "tests/support/gguf_builder.h"

namespace paceline::testing {

// Ids 0..2 <|endoftext|>, <|im_start|> (bos), <|im_end|> (eos); 3..258 the bytes 0..255; then merges of
// common pairs, then unused tokens up to `vocab_size`, which is at least 300.
void AddTinyTokenizer(uint32_t vocab_size, GgufBuilder& builder);

}  // namespace paceline::testing
