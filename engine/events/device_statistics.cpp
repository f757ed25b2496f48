#include "troupe/engine/events/device_statistics.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "troupe/engine/device/statistics_row.hpp"

namespace troupe {
namespace {

/// The first columns of a row are the fields, in their order.
struct row_reader {
  const double* next;

  template <class Number>
  void operator()(const char*, Number& target) {
    target = static_cast<Number>(*next++);
  }
  void operator()(const char*, shared_histogram&) {}
};

tensor_statistics statistics_of(const double* row, bool wide) {
  tensor_statistics result;
  row_reader reader{row};
  fields(reader, result);
  if (wide && result.count > 0) {
    log2_histogram bins;
    static_assert(bins.size() == histogram_bins);
    std::transform(
      reader.next, reader.next + histogram_bins, bins.begin(),
      [](double count) { return static_cast<std::int64_t>(count); });
    result.histogram = bins;
  }
  return result;
}

/// Copies the rows of several launches to the host.
at::Tensor copied(const tensor_list& launches, device_stream& stream) {
  if (launches.empty())
    return {};
  const auto scope = stream.enter();
  for (const auto& rows : launches)
    stream.uses(rows);
  return to_host(launches.size() == 1 ? launches[0] : at::cat(launches), stream)
    .tensor;
}

}  // namespace

std::size_t device_statistics::add(const at::Tensor& tensor,
                                   bool with_histogram) {
  constexpr std::size_t most_waiting_bytes = std::size_t{64} << 20;
  const auto index = wide_.size() + waiting_.size();
  waiting_.push_back(tensor.detach());
  waiting_bytes_ += tensor.nbytes();
  waits_for_histogram_ = waits_for_histogram_ || with_histogram;
  if (waiting_bytes_ > most_waiting_bytes)
    launch();
  return index;
}

void device_statistics::launch() {
  const at::NoGradGuard no_grad;
  const auto tensors = std::exchange(waiting_, {});
  const auto wide = std::exchange(waits_for_histogram_, false);
  waiting_bytes_ = 0;
  if (tensors.empty())
    return;
  const auto rows =
    at::empty({static_cast<std::int64_t>(tensors.size()),
               wide ? wide_statistics_columns : statistics_columns},
              at::TensorOptions{}.dtype(at::kDouble).device(device_));
  kernels_.measure(tensors, rows);
  (wide ? wide_rows_ : rows_).push_back(rows);
  wide_.resize(wide_.size() + tensors.size(), wide);
}

std::vector<tensor_statistics> device_statistics::take(device_stream& stream) {
  const at::NoGradGuard no_grad;
  const auto rows = copied(std::exchange(rows_, {}), stream);
  const auto wide_rows = copied(std::exchange(wide_rows_, {}), stream);
  if (const auto ready = stream.record())
    ready->wait();
  const auto begin_of = [](const at::Tensor& of) {
    return of.defined() ? of.const_data_ptr<double>() : nullptr;
  };
  const auto* row = begin_of(rows);
  const auto* wide_row = begin_of(wide_rows);
  std::vector<tensor_statistics> result;
  for (const auto wide : std::exchange(wide_, {})) {
    auto& next = wide ? wide_row : row;
    result.push_back(statistics_of(next, wide));
    next += wide ? wide_statistics_columns : statistics_columns;
  }
  return result;
}

}  // namespace troupe
