#include "common/decoder/forward_batch.h"

#include <cstddef>

namespace paceline {
namespace {

Status CheckTables(const ForwardBatch& batch, const BatchLimits& limits) {
  for (size_t sequence = 0; sequence < batch.block_tables.size(); ++sequence) {
    for (const BlockId block : batch.block_tables[sequence]) {
      if (block.value() >= limits.num_blocks) {
        return InvalidArgumentError("batch: want blocks below {}, found {} in the table of sequence {}",
                                    limits.num_blocks, block.value(), sequence);
      }
    }
  }
  return OkStatus();
}

Status CheckRow(const ForwardRow& row, size_t index, const ForwardBatch& batch, const BatchLimits& limits) {
  if (row.id < 0 || static_cast<uint32_t>(row.id) >= limits.vocab_size) {
    return InvalidArgumentError("batch: row {}: want an id in [0, {}), found {}", index, limits.vocab_size,
                                row.id);
  }
  if (row.position >= limits.positions_max) {
    return InvalidArgumentError("batch: row {}: want a position below {}, found {}; see --max-model-len",
                                index, limits.positions_max, row.position);
  }
  if (row.sequence_index >= batch.block_tables.size()) {
    return InvalidArgumentError("batch: row {}: want a sequence below {}, found {}", index,
                                batch.block_tables.size(), row.sequence_index);
  }
  const uint64_t path = uint64_t{row.prefix_len} + row.tail_slots.size();
  const uint64_t last = row.tail_slots.empty() ? uint64_t{row.prefix_len} - 1 : row.tail_slots.back();
  if (path != uint64_t{row.position} + 1 || last != row.slot) {
    return InvalidArgumentError(
        "batch: row {}: want a path of {} entries that ends in slot {}, found a prefix of {} and {} tail "
        "slots",
        index, uint64_t{row.position} + 1, row.slot, row.prefix_len, row.tail_slots.size());
  }
  if (row.residual_row >= batch.residual_rows) {
    return InvalidArgumentError("batch: row {}: want a residual row below {}, found {}", index,
                                batch.residual_rows, row.residual_row);
  }
  const uint64_t covered = uint64_t{batch.block_tables[row.sequence_index].size()} * limits.block_size;
  for (const Slot slot : row.tail_slots) {
    if (slot >= covered) {
      return InvalidArgumentError("batch: row {}: want slots below {} (its table), found {}", index, covered,
                                  slot);
    }
  }
  if (row.prefix_len > covered) {
    return InvalidArgumentError("batch: row {}: want a prefix within {} slots (its table), found {}", index,
                                covered, row.prefix_len);
  }
  return OkStatus();
}

}  // namespace

Status CheckBatch(const ForwardBatch& batch, const BatchLimits& limits) {
  if (batch.rows.size() > limits.rows_max) {
    return InvalidArgumentError("batch: want at most {} rows, found {}; see --max-num-batched-tokens",
                                limits.rows_max, batch.rows.size());
  }
  RETURN_IF_ERROR(CheckTables(batch, limits));
  for (size_t i = 0; i < batch.rows.size(); ++i) RETURN_IF_ERROR(CheckRow(batch.rows[i], i, batch, limits));
  return OkStatus();
}

}  // namespace paceline
