#pragma once

#include <optional>

#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// fp32, fp64, fp16 or bf16; none for other types.
std::optional<device_type> device_type_of(const at::Tensor& tensor);

/// The tensor, or a copy made on the current stream, in the form that
/// statistics read: of one of those types, instances one after the other.
at::Tensor readable(const at::Tensor& tensor);

/// The entry of a readable tensor, which must not be empty.
statistics_entry statistics_entry_of(const at::Tensor& tensor);

/// The entry of a dense tensor of one of the types.
flat_entry flat_entry_of(const at::Tensor& tensor);

/// Fills tables with entries, numbers their pieces, and passes each full table,
/// and the last one, to `launch`, with its number of pieces. Changes that
/// `launch` makes to the table's other fields are kept for the next one.
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
