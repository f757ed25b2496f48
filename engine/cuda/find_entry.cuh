#pragma once

namespace troupe {

/// The entry of a launch's table that the block of that number works on.
template <class Table>
__device__ int find_entry(const Table& table, int piece) {
  int low = 0, high = table.count - 1;
  while (low < high) {
    const auto middle = (low + high + 1) / 2;
    if (table.entries[middle].first_piece <= piece)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

}  // namespace troupe
