#pragma once

#include <optional>

#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// fp32, fp64, fp16 or bf16; nothing for other types.
std::optional<device_type> device_type_of(const at::Tensor& tensor);

/// The tensor, or a copy made on the current stream, as statistics read it: of
/// one of those types, instances one after the other.
at::Tensor readable(const at::Tensor& tensor);

/// The entry of a readable tensor that is not empty.
statistics_entry statistics_entry_of(const at::Tensor& tensor);

/// That of a dense tensor of one of the types.
flat_entry flat_entry_of(const at::Tensor& tensor);

/// Fills tables with entries, numbers their pieces, and hands each table that
/// is full, and the last one, to `launch`, with its number of pieces. What
/// `launch` changes in the table's other fields is kept for the next one.
template <class Table, class Entry, class Launch>
void launch_all(const std::vector<Entry>& entries, const Table& empty,
                Launch launch) {
  auto table = empty;
  std::int64_t pieces = 0;
  for (const auto& entry : entries) {
    if (table.count == Table::capacity) {
      launch(table, pieces);
      table.count = 0;
      pieces = 0;
    }
    auto& added = table.entries[table.count++] = entry;
    added.first_piece = static_cast<std::int32_t>(pieces);
    pieces += entry.pieces();
  }
  if (table.count > 0)
    launch(table, pieces);
}

}  // namespace troupe
