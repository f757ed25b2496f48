#include "troupe/engine/cuda/kernels.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <c10/cuda/CUDAGuard.h>

#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/cuda/check.hpp"
#include "troupe/engine/cuda/launches.hpp"
#include "troupe/engine/cuda/operands.hpp"

namespace troupe {
namespace {

/// The tensor, or a copy made on the current stream, in the form that
/// statistics read: of one of those types, instances one after the other.
at::Tensor readable(const at::Tensor& tensor) {
  auto result = tensor.detach().resolve_neg();
  if (!device_type_of(result))
    result = result.to(result.element_size() < 4 ? at::kFloat : at::kDouble);
  return lies_by_instances(result) ? result : result.contiguous();
}

/// The entry of a readable tensor, which must not be empty.
statistics_entry statistics_entry_of(const at::Tensor& tensor) {
  const auto instances = tensor.dim() == 0 ? 1 : tensor.size(0);
  auto entry = cut(instances, tensor.numel() / instances);
  entry.data = tensor.const_data_ptr();
  entry.type = device_type_of(tensor).value();
  return entry;
}

/// The entry of a dense tensor of one of the types.
flat_entry flat_entry_of(const at::Tensor& tensor) {
  flat_entry entry;
  entry.data = tensor.data_ptr();
  entry.count = tensor.numel();
  entry.type = device_type_of(tensor).value();
  return entry;
}

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

cudaStream_t current(int device) {
  return c10::cuda::getCurrentCUDAStream(index_of(device)).stream();
}

bool fits(const at::Tensor& rows, std::size_t count) {
  return rows.scalar_type() == at::kDouble && rows.is_contiguous()
         && rows.dim() == 2 && rows.size(0) == static_cast<std::int64_t>(count)
         && (rows.size(1) == statistics_columns
             || rows.size(1) == wide_statistics_columns);
}

template <class Entry>
std::int64_t pieces_of(const std::vector<Entry>& entries) {
  std::int64_t pieces = 0;
  for (const auto& entry : entries)
    pieces += entry.pieces();
  return pieces;
}

class cuda_kernels final : public device_kernels {
 public:
  explicit cuda_kernels(int device) : device_{device} {}

  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    const at::NoGradGuard no_grad;
    require_rows(rows, tensors.size());
    const c10::cuda::CUDAGuard guard{index_of(device_)};
    tensor_list read;  // copies live until the launch
    std::vector<statistics_entry> entries;
    for (const auto& tensor : tensors) {
      require_measurable(tensor);
      read.push_back(readable(tensor));
      if (tensor.numel() == 0)
        continue;
      entries.push_back(statistics_entry_of(read.back()));
      entries.back().row = static_cast<std::int32_t>(read.size() - 1);
    }
    if (rows.size(1) > statistics_columns || entries.size() < tensors.size())
      rows.zero_();
    launch_statistics_of(entries, rows);
  }

  void measure_rows(const std::vector<tensor_rows>& tensors,
                    const at::Tensor& rows) override {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAGuard guard{index_of(device_)};
    std::vector<statistics_entry> entries;
    for (const auto& [tensor, width, chosen] : tensors) {
      require_floats(tensor);
      auto entry = cut(1, width);
      entry.type = device_type_of(tensor).value();
      const auto* data = static_cast<const char*>(tensor.const_data_ptr());
      for (const auto row : chosen) {
        entry.data = data + row * width * tensor.element_size();
        entry.row = static_cast<std::int32_t>(entries.size());
        entries.push_back(entry);
      }
    }
    require_rows(rows, entries.size());
    launch_statistics_of(entries, rows);
  }

  at::Tensor norm_powers(const tensor_list& tensors, norm_type type) override {
    const at::NoGradGuard no_grad;
    const c10::cuda::CUDAGuard guard{index_of(device_)};
    auto sums = zeros(static_cast<std::int64_t>(tensors.size()), at::kDouble);
    const auto entries = flat_entries(tensors);
    if (entries.empty())
      return sums;
    const auto parts =
      room(pieces_of(entries) * static_cast<std::int64_t>(sizeof(double)));
    const auto finished =
      zeros(static_cast<std::int64_t>(entries.size()), at::kInt);
    flat_table table;
    table.sums = sums.mutable_data_ptr<double>();
    table.parts = static_cast<double*>(parts.mutable_data_ptr());
    table.finished = static_cast<unsigned*>(finished.mutable_data_ptr());
    launch_all(entries, table, [&](flat_table& full, std::int64_t pieces) {
      check(launch_norm_powers(full, pieces, type, current(device_)),
            "launching powers of a norm");
      full.parts += pieces;
      full.finished += full.count;
    });
    return sums;
  }

  void fill_mask(const at::Tensor& mask, const philox_stream& stream,
                 std::uint32_t threshold, const at::Tensor& key) override {
    require_here(mask);
    const philox_key* words = nullptr;
    if (key.defined()) {
      require_here(key);
      if (key.scalar_type() != at::kInt || key.numel() != 2
          || !key.is_contiguous())
        fail(error_code::invalid_argument, "no key of two words: {}",
             describe(key));
      static_assert(sizeof(philox_key) == 2 * sizeof(std::int32_t));
      words = static_cast<const philox_key*>(key.const_data_ptr());
    }
    if (mask.scalar_type() != at::kByte || !mask.is_contiguous())
      fail(error_code::invalid_argument, "no mask of bytes: {}",
           describe(mask));
    const c10::cuda::CUDAGuard guard{index_of(device_)};
    check(launch_fill_mask({mask.mutable_data_ptr<std::uint8_t>(), mask.numel(),
                            stream, words, threshold},
                           current(device_)),
          "launching a mask of dropout");
  }

  void delay(double seconds) override {
    if (seconds < 0 || seconds > 10)
      fail(error_code::invalid_argument, "can't delay by {} s; at most 10 s",
           seconds);
    const c10::cuda::CUDAGuard guard{index_of(device_)};
    check(launch_delay(seconds, current(device_)), "launching a delay");
  }

 private:
  void require_here(const at::Tensor& tensor) const {
    if (!tensor.defined() || tensor.layout() != at::kStrided
        || !tensor.is_cuda() || tensor.get_device() != device_)
      fail(error_code::invalid_argument,
           "{} is not a dense tensor of device cuda:{}", describe(tensor),
           device_);
  }

  void require_rows(const at::Tensor& rows, std::size_t count) const {
    require_here(rows);
    if (!fits(rows, count))
      fail(error_code::invalid_argument,
           "no rows for statistics of {} tensors: {}", count, describe(rows));
  }

  void require_floats(const at::Tensor& tensor) const {
    require_here(tensor);
    if (!device_type_of(tensor) || !tensor.is_non_overlapping_and_dense())
      fail(error_code::invalid_argument,
           "{} has gaps, or is not of fp32, fp64, fp16 or bf16",
           describe(tensor));
  }

  void require_measurable(const at::Tensor& tensor) const {
    require_here(tensor);
    if (!device_type_of(tensor)
        && !at::isIntegralType(tensor.scalar_type(), true))
      fail(error_code::invalid_argument,
           "can't compute statistics of this kind of tensor: {}",
           describe(tensor));
  }

  std::vector<flat_entry> flat_entries(const tensor_list& tensors) const {
    std::vector<flat_entry> entries;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      require_floats(tensors[i]);
      if (tensors[i].numel() == 0)
        continue;
      entries.push_back(flat_entry_of(tensors[i]));
      entries.back().row = static_cast<std::int32_t>(i);
    }
    return entries;
  }

  void launch_statistics_of(const std::vector<statistics_entry>& entries,
                            const at::Tensor& rows) {
    if (entries.empty())
      return;
    const auto parts = room(
      pieces_of(entries) * static_cast<std::int64_t>(sizeof(statistics_part)));
    const auto finished =
      zeros(static_cast<std::int64_t>(entries.size()), at::kInt);
    statistics_table table;
    table.columns = static_cast<int>(rows.size(1));
    table.rows = rows.mutable_data_ptr<double>();
    table.parts = static_cast<statistics_part*>(parts.mutable_data_ptr());
    table.finished = static_cast<unsigned*>(finished.mutable_data_ptr());
    launch_all(entries, table,
               [&](statistics_table& full, std::int64_t pieces) {
                 check(launch_statistics(full, pieces, current(device_)),
                       "launching statistics");
                 full.parts += pieces;
                 full.finished += full.count;
               });
  }

  at::Tensor room(std::int64_t bytes) const {
    return at::empty({bytes}, at::TensorOptions{}.dtype(at::kByte).device(
                                at::kCUDA, index_of(device_)));
  }

  at::Tensor zeros(std::int64_t count, at::ScalarType type) const {
    return at::zeros({count}, at::TensorOptions{}.dtype(type).device(
                                at::kCUDA, index_of(device_)));
  }

  const int device_;
};

}  // namespace

std::unique_ptr<device_kernels> make_kernels(int device) {
  return std::make_unique<cuda_kernels>(device);
}

}  // namespace troupe
