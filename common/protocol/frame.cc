#include "common/protocol/frame.h"

#include <xxhash.h>

namespace paceline {
namespace {

uint64_t Mix(uint64_t digest, uint64_t word) { return XXH64(&word, sizeof word, digest); }

}  // namespace

uint64_t FrameDigest(const FrameHeader& header) {
  uint64_t digest = Mix(0, header.step.value());
  for (const FrameSequence& seq : header.sequences) {
    digest = Mix(digest, seq.sequence.value());
    digest = Mix(digest, (uint64_t{seq.lineage.coordinator} << 32) | seq.lineage.last_stage);
    digest = Mix(digest, (uint64_t{seq.row_begin} << 32) | seq.row_count);
    digest = Mix(digest, (uint64_t{seq.num_drafted} << 2) | (seq.draws ? 2u : 0u) | (seq.live ? 1u : 0u));
  }
  for (const FrameRow& row : header.rows) {
    digest = Mix(digest, (uint64_t{static_cast<uint32_t>(row.id)} << 32) | row.position);
    digest = Mix(digest, (uint64_t{row.slot} << 32) | static_cast<uint32_t>(row.parent));
  }
  return digest;
}

}  // namespace paceline
