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
  const auto index = wide_.size() + waiting_.size();
  waiting_.push_back(tensor.detach());
  waits_for_histogram_ = waits_for_histogram_ || with_histogram;
  keep_few_waiting(tensor);
  return index;
}

std::size_t device_statistics::add_sample(const at::Tensor& tensor,
                                          const row_plan& plan,
                                          std::vector<std::int64_t> rows) {
  waiting_samples_.push_back({tensor.detach(), plan.width, std::move(rows)});
  plans_.push_back(plan);
  keep_few_waiting(tensor);
  return plans_.size() - 1;
}

void device_statistics::keep_few_waiting(const at::Tensor& added) {
  constexpr std::size_t most_waiting_bytes = std::size_t{64} << 20;
  waiting_bytes_ += added.nbytes();
  if (waiting_bytes_ > most_waiting_bytes)
    launch();
}

void device_statistics::launch() {
  const at::NoGradGuard no_grad;
  waiting_bytes_ = 0;
  launch_tensors();
  launch_samples();
}

void device_statistics::launch_samples() {
  const auto samples = std::exchange(waiting_samples_, {});
  if (samples.empty())
    return;
  std::int64_t count = 0;
  for (const auto& each : samples)
    count += std::ssize(each.rows);
  sample_rows_.push_back(
    at::empty({count, statistics_columns},
              at::TensorOptions{}.dtype(at::kDouble).device(device_)));
  kernels_.measure_rows(samples, sample_rows_.back());
}

void device_statistics::launch_tensors() {
  const auto tensors = std::exchange(waiting_, {});
  const auto wide = std::exchange(waits_for_histogram_, false);
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

std::vector<row_estimates> device_statistics::take_samples(
  device_stream& stream) {
  const at::NoGradGuard no_grad;
  std::vector<row_estimates> result;
  const auto rows = copied(std::exchange(sample_rows_, {}), stream);
  if (!rows.defined())
    return result;
  if (const auto ready = stream.record())
    ready->wait();
  const auto* row = rows.const_data_ptr<double>();
  for (const auto& plan : std::exchange(plans_, {})) {
    std::vector<tensor_statistics> drawn;
    for (auto left = plan.drawn(); left > 0; --left, row += statistics_columns)
      drawn.push_back(statistics_of(row, false));
    result.push_back(estimated(plan, drawn));
  }
  return result;
}

}  // namespace troupe
