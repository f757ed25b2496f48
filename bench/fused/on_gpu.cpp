#include "on_gpu.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "gpu_cases.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

/// Where it is measured; the CPU without an accelerator.
class measured_device {
 public:
  explicit measured_device(std::shared_ptr<accelerator> gpu)
    : gpu_(std::move(gpu)) {
    if (!gpu_)
      return;
    stream_ = gpu_->make_stream();
    scope_ = stream_->enter();
  }

  at::Device device() const {
    return gpu_ ? gpu_->description().device : at::Device{at::kCPU};
  }
  std::string name() const { return gpu_ ? gpu_->description().name : "CPU"; }

  /// Seconds per run, measured between events. The device's cache holds nothing
  /// of earlier runs, and the host is ahead of the device.
  std::vector<double> times_of(const std::function<void()>& run, int rounds) {
    std::vector<std::function<double()>> results;
    if (gpu_ && !flushed_.defined())
      flushed_ = at::empty({1 << 26}, at::TensorOptions(device()));
    for (int i = 0; i < rounds + 1; ++i)  // the first one warms up
      results.push_back(gpu_ ? started_on_gpu(run) : run_on_cpu(run));
    std::vector<double> times;
    for (std::size_t i = 1; i < results.size(); ++i)
      times.push_back(results[i]());
    return times;
  }

 private:
  std::function<double()> started_on_gpu(const std::function<void()>& run) {
    constexpr double launching = 5e-4;  // at most, of one run
    delay(*gpu_, *stream_, launching);
    flushed_.zero_();
    const auto begin = stream_->record();
    run();
    const auto end = stream_->record();
    return [=] {
      end->wait();
      return end->seconds_since(*begin);
    };
  }

  static std::function<double()> run_on_cpu(const std::function<void()>& run) {
    const auto begin = now_ns();
    run();
    const auto seconds = static_cast<double>(now_ns() - begin) * 1e-9;
    return [=] { return seconds; };
  }

  std::shared_ptr<accelerator> gpu_;
  std::unique_ptr<device_stream> stream_;
  std::unique_ptr<stream_scope> scope_;
  at::Tensor flushed_;  // 256 MiB
};

/// Bytes per second by the vendor's data sheet.
std::optional<double> specified_bandwidth(const std::string& name) {
  if (name.find("H200") != std::string::npos)
    return 4.8e12;
  if (name.find("H100 80GB HBM3") != std::string::npos)  // SXM
    return 3.35e12;
  return {};
}

double measured_bandwidth(measured_device& on, const gpu_measurement& use) {
  const auto from =
    at::ones({use.dry_run ? 1 << 16 : 1 << 27}, at::TensorOptions(on.device()));
  const auto to = at::empty_like(from);
  const auto bytes = 2 * static_cast<double>(from.nbytes());
  return bytes / median(on.times_of([&] { to.copy_(from); }, use.rounds));
}

json measured(measured_device& on, const gpu_case& each, double bandwidth,
              int rounds) {
  const auto theirs = median(on.times_of(each.theirs, rounds));
  const auto ours = median(on.times_of(each.ours, rounds));
  const auto rate = each.bytes / ours;
  return {{"function", each.name},   {"shape", each.shape},
          {"dtype", each.dtype},     {"libtorch_us", theirs * 1e6},
          {"troupe_us", ours * 1e6}, {"gain", theirs / ours},
          {"gb_per_s", rate * 1e-9}, {"share", rate / bandwidth}};
}

void print_row(const json& row) {
  fmt::print(
    "| {} | {} | {} | {:.1f} | {:.1f} | {:.2f} x | {:.0f} | {:.0f} % |\n",
    row["function"].get<std::string>(), row["shape"].get<std::string>(),
    row["dtype"].get<std::string>(), row["libtorch_us"].get<double>(),
    row["troupe_us"].get<double>(), row["gain"].get<double>(),
    row["gb_per_s"].get<double>(), row["share"].get<double>() * 100);
}

}  // namespace

void measure_on_gpu(const gpu_measurement& use) {
  const auto found = one_gpu(!use.dry_run);
  measured_device on(found.empty() ? nullptr : found[0]);
  const compute_scope computing(1);
  const auto specified = specified_bandwidth(on.name());
  const auto bandwidth = specified ? *specified : measured_bandwidth(on, use);
  json rows = json::array();
  if (!use.json)
    fmt::print(
      "{}, {:.2f} TB/s ({})\n\n| function | shape | dtype | LibTorch, us | "
      "troupe, us | faster by | GB/s | of the bandwidth "
      "|\n|---|---|---|---|---|---|---|---|\n",
      on.name(), bandwidth * 1e-12, specified ? "data sheet" : "measured");
  for_each_gpu_case(on.device(), use.dry_run, [&](const gpu_case& each) {
    rows.push_back(measured(on, each, bandwidth, use.rounds));
    if (!use.json)
      print_row(rows.back());
  });
  if (use.json)
    fmt::print("{}\n",
               json{{"device", on.name()},
                    {"bandwidth_gb_per_s", bandwidth * 1e-9},
                    {"bandwidth_of", specified ? "data sheet" : "a copy"},
                    {"functions", rows}}
                 .dump());
}

}  // namespace troupe
