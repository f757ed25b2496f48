#pragma once

#include <cuda_runtime_api.h>

#include "troupe/engine/cuda/mask_task.hpp"
#include "troupe/engine/cuda/row_tasks.hpp"
#include "troupe/engine/cuda/statistics_pieces.hpp"
#include "troupe/engine/device/norm_type.hpp"

// The kernels' C++ interface. Tables are passed as kernel arguments, so nothing
// has to be copied before a launch, nor kept after it.
namespace troupe {

struct statistics_table {
  static constexpr int capacity = 80;

  statistics_entry entries[capacity];
  int count = 0;
  int columns = 0;  // of rows
  double* rows = nullptr;
  statistics_part* parts = nullptr;  // one per piece
  unsigned* finished = nullptr;      // one per entry, 0
};

cudaError_t launch_statistics(const statistics_table& table,
                              std::int64_t pieces, cudaStream_t stream);

/// Tensors as runs of values, in pieces of piece_values.
struct flat_entry {
  void* data = nullptr;
  std::int64_t count = 0;
  std::int32_t first_piece = 0;
  std::int32_t row = 0;
  device_type type = device_type::fp32;

  constexpr std::int64_t pieces() const {
    return (count + piece_values - 1) / piece_values;
  }
};

struct flat_table {
  static constexpr int capacity = 100;

  flat_entry entries[capacity];
  int count = 0;
  double* parts = nullptr;       // one per piece
  unsigned* finished = nullptr;  // one per entry, 0
  double* sums = nullptr;        // one per row
};

cudaError_t launch_norm_powers(const flat_table& table, std::int64_t pieces,
                               norm_type type, cudaStream_t stream);
cudaError_t launch_fill_mask(const mask_task& task, cudaStream_t stream);

cudaError_t launch_norm(const norm_task& task, cudaStream_t stream);
cudaError_t launch_norm_backward(const norm_backward_task& task,
                                 cudaStream_t stream);
cudaError_t launch_column_sums(const column_sums_task& task,
                               cudaStream_t stream);
cudaError_t launch_gated(const gated_task& task, cudaStream_t stream);
cudaError_t launch_rotate(const rotate_task& task, cudaStream_t stream);
cudaError_t launch_cross_entropy(const cross_entropy_task& task,
                                 cudaStream_t stream);
cudaError_t launch_delay(double seconds, cudaStream_t stream);

}  // namespace troupe
