#include "faked_accelerator.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <algorithm>

#include "faked_communicator.hpp"
#include "faked_graph.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/statistics_row.hpp"
#include "troupe/engine/events/row_sample.hpp"
#include "troupe/engine/events/statistics.hpp"
#include "troupe/engine/stage/random_draws.hpp"
#include "troupe/engine/stage/update/gradient_norm.hpp"

namespace troupe::testing {

namespace {

class faked_event final : public device_event {
 public:
  faked_event(vector_clock clock, int recording, std::int64_t at)
    : clock_(std::move(clock)), recording_(recording), at_(at) {}
  bool reached() const override {
    require_not_recorded();
    auto* watch = active_watch();
    return watch && watch->host_knows(clock_);
  }
  void wait() const override {
    require_not_recorded();
    if (auto* watch = active_watch())
      watch->wait_for(0, clock_);
  }
  double seconds_since(const device_event& earlier) const override {
    return static_cast<double>(at_
                               - dynamic_cast<const faked_event&>(earlier).at_)
           * 1e-9;
  }
  const vector_clock& clock() const { return clock_; }
  int recording() const { return recording_; }
  std::int64_t at() const { return at_; }

 private:
  void require_not_recorded() const {
    if (recording_ != 0)
      throw error(error_code::device, "the host looks at a recorded event");
  }

  vector_clock clock_;
  int recording_;  // 0: it is not recorded
  std::int64_t at_;
};

class faked_scope final : public stream_scope {
 public:
  explicit faked_scope(int stream)
    : before_(std::exchange(current_stream, stream)) {}
  ~faked_scope() override { current_stream = before_; }

 private:
  std::shared_ptr<void> recorded_ = enter_recording();
  int before_;
};

class faked_stream final : public device_stream {
 public:
  explicit faked_stream(race_watch& watch)
    : watch_(watch), number_(watch.add_stream()) {}

  c10::Device device() const override { return c10::kCPU; }
  std::unique_ptr<stream_scope> enter() override {
    return std::make_unique<faked_scope>(number_);
  }
  event_handle record() override {
    return std::make_shared<const faked_event>(
      watch_.now(number_), recorded_with(number_),
      watch_.done_at(number_, now_ns()));
  }
  void wait_for(const device_event& event) override {
    const auto& point = dynamic_cast<const faked_event&>(event);
    take_part(number_, point.recording());
    watch_.wait_for(number_, point.clock());
    watch_.keep_busy(number_, point.at());
  }
  void uses(const at::Tensor& tensor) override { watch_.uses(number_, tensor); }
  void drain() override { record()->wait(); }

 private:
  race_watch& watch_;
  int number_;
};

void write_row(const tensor_statistics& from, double* row, bool wide) {
  const double values[] = {double(from.count),
                           double(from.nans),
                           double(from.infs),
                           double(from.zeros),
                           double(from.fp16_overflows),
                           double(from.fp16_underflows),
                           double(from.bf16_overflows),
                           double(from.bf16_underflows),
                           from.max_abs,
                           from.min_abs,
                           from.mean,
                           from.squares,
                           double(from.instances),
                           from.instance_mean_sum,
                           from.instance_variance_sum};
  std::ranges::copy(values, row);
  if (wide)
    std::ranges::copy(*from.histogram, row + statistics_columns);
}

class counted_graph final : public device_graph {
 public:
  counted_graph(std::unique_ptr<device_graph> graph, int& launches)
    : graph_(std::move(graph)), launches_(launches) {}
  void launch(device_stream& on) override {
    ++launches_;
    graph_->launch(on);
  }

 private:
  std::unique_ptr<device_graph> graph_;
  int& launches_;
};

/// As an operator, so that it is recorded.
void fill_mask_by_key(at::Tensor mask, const at::Tensor& key,
                      std::int64_t place, std::int64_t occurrence,
                      std::int64_t threshold) {
  const auto* words = key.const_data_ptr<std::int32_t>();
  troupe::fill_mask(mask,
                    {{static_cast<std::uint32_t>(words[0]),
                      static_cast<std::uint32_t>(words[1])},
                     static_cast<std::uint32_t>(place),
                     static_cast<std::uint32_t>(occurrence)},
                    static_cast<std::uint32_t>(threshold));
}

TORCH_LIBRARY(troupe_faked, library) {
  library.def(
    "fill_mask(Tensor(a!) mask, Tensor key, int place, int occurrence, int "
    "threshold) -> ()");
  library.impl("fill_mask", c10::DispatchKey::CPU, fill_mask_by_key);
}

class faked_kernels final : public device_kernels {
 public:
  void measure(const tensor_list& tensors, const at::Tensor& rows) override {
    note(tensors, {rows});
    const bool wide = rows.size(1) > statistics_columns;
    auto* row = rows.mutable_data_ptr<double>();
    for (const auto& tensor : tensors) {
      write_row(troupe::measure(tensor, wide), row, wide);
      row += rows.size(1);
    }
  }
  void measure_rows(const std::vector<tensor_rows>& tensors,
                    const at::Tensor& rows) override {
    auto* row = rows.mutable_data_ptr<double>();
    for (const auto& [tensor, width, chosen] : tensors) {
      note({tensor}, {rows});
      for (const auto& each : troupe::measure_rows(tensor, width, chosen)) {
        write_row(each, row, false);
        row += rows.size(1);
      }
    }
  }
  at::Tensor norm_powers(const tensor_list& tensors, norm_type type) override {
    note(tensors, {});
    tensor_list parameters;
    for (const auto& gradient : tensors) {
      parameters.push_back(at::empty_like(gradient));
      parameters.back().mutable_grad() = gradient;
    }
    const auto powers = gradient_powers(parameters, type);
    auto sums = at::empty({std::ssize(powers)}, at::kDouble);
    std::ranges::copy(powers, sums.mutable_data_ptr<double>());
    return sums;
  }
  void fill_mask(const at::Tensor& mask, const philox_stream& stream,
                 std::uint32_t threshold, const at::Tensor& key) override {
    if (key.defined()) {
      static const auto by_key =
        c10::Dispatcher::singleton()
          .findSchemaOrThrow("troupe_faked::fill_mask", "")
          .typed<decltype(fill_mask_by_key)>();
      by_key.call(mask, key, stream.place, stream.occurrence, threshold);
      return;
    }
    note({}, {mask});
    troupe::fill_mask(mask, stream, threshold);
  }
  void delay(double seconds) override {
    auto& watch = *active_watch();
    watch.keep_busy(current_stream,
                    watch.done_at(current_stream, now_ns())
                      + static_cast<std::int64_t>(seconds * 1e9));
  }

 private:
  static void note(const tensor_list& reads, const tensor_list& writes) {
    if (recorded_with(current_stream) != 0)
      throw error(error_code::device, "a kernel that is no operator");
    if (auto* watch = active_watch())
      watch->ran("kernel", reads, writes);
  }
};

}  // namespace

faked_accelerator::faked_accelerator()
  : description_{c10::kCPU, "faked", 0, 0, 1 << 30},
    kernels_(std::make_unique<faked_kernels>()) {}

faked_accelerator::~faked_accelerator() = default;

std::vector<std::string> faked_accelerator::races() const {
  return active_watch()->races();
}

std::size_t faked_accelerator::watched() const {
  return active_watch()->watched();
}

const accelerator_description& faked_accelerator::description() const {
  return description_;
}

std::unique_ptr<device_stream> faked_accelerator::make_stream(stream_priority) {
  return std::make_unique<faked_stream>(*active_watch());
}

device_kernels& faked_accelerator::kernels() {
  return *kernels_;
}

std::unique_ptr<device_graph> faked_accelerator::record_graph(
  device_stream& origin, const std::function<void()>& work) {
  ++recordings_;
  return std::make_unique<counted_graph>(record_faked_graph(origin, work),
                                         launches_);
}

communicator_id faked_accelerator::make_communicator_id() {
  return new_faked_id();
}

std::unique_ptr<communicator> faked_accelerator::make_communicator(
  const communicator_options& options) {
  return make_faked_communicator(options);
}

}  // namespace troupe::testing
