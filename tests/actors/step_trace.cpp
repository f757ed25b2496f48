#include "step_trace.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <mutex>
#include <set>

#include "race_watch.hpp"
#include "troupe/engine/plan/compile/overlapped_pairs.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe::testing {

namespace {

/// Notes operators on any thread that copy a value from the device to the host
/// and wait for it.
class host_reads {
 public:
  host_reads() {
    seen_by() = this;
    callback_ = at::addGlobalCallback(
      at::RecordFunctionCallback(on_start).needsInputs(true).scopes(
        {at::RecordScope::FUNCTION}));
  }
  ~host_reads() {
    at::removeCallback(callback_);
    seen_by() = nullptr;
  }
  host_reads(const host_reads&) = delete;
  host_reads& operator=(const host_reads&) = delete;

  std::vector<std::string> take() {
    const std::scoped_lock lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  static std::atomic<host_reads*>& seen_by() {
    static std::atomic<host_reads*> one{nullptr};
    return one;
  }
  static std::unique_ptr<at::ObserverContext> on_start(
    const at::RecordFunction& call) {
    static const std::set<std::string> reading{
      "aten::_local_scalar_dense", "aten::is_nonzero", "aten::nonzero",
      "aten::equal", "aten::masked_select"};
    auto* to = seen_by().load();
    if (!to || !reading.contains(call.name())
        || std::ranges::none_of(call.inputs(), is_on_device))
      return nullptr;
    const std::scoped_lock lock(to->mutex_);
    to->names_.emplace_back(call.name());
    return nullptr;
  }

  static bool is_on_device(const c10::IValue& input) {
    if (!input.isTensor() || !input.toTensor().defined())
      return false;
    auto* watch = active_watch();
    return !input.toTensor().is_cpu()
           || (watch && watch->made_by_stream(input.toTensor()));
  }

  at::CallbackHandle callback_;
  std::mutex mutex_;
  std::vector<std::string> names_;
};

/// Passes its input on; its first call takes so many seconds longer.
struct slow_layer final : stage_module {
  slow_layer(device_pointer device, std::shared_ptr<std::atomic<double>> once)
    : on(std::move(device)), seconds(std::move(once)) {}
  tensor_list forward(const tensor_list& inputs) override {
    if (const auto delay = seconds->exchange(0); delay > 0)
      on->kernels().delay(delay);
    return inputs;
  }
  device_pointer on;
  std::shared_ptr<std::atomic<double>> seconds;
};

/// An equal number of layers per stage; the remainder goes to the first stage.
stage_split more_at_first(std::int32_t layers, std::int32_t stages) {
  stage_split split;
  for (std::int32_t s = 0; s < stages; ++s) {
    const auto last = layers - (stages - s - 1) * (layers / stages);
    split.push_back({s == 0 ? 0 : split.back().last, last});
  }
  return split;
}

bool is_launch(const step_trace& trace, const op_record& op) {
  return is_compute(trace.of->ops.at(op.op).kind);
}

}  // namespace

step_trace trace_step(
  const small_case& what, const device_pointer& on, double seconds,
  const std::function<trainer_options(trainer_options)>& change, int warm_up) {
  const auto device =
    std::make_shared<disturbed_accelerator>(on, device_disturbance{});
  const auto once = std::make_shared<std::atomic<double>>(0);
  auto layers = model_for(what);
  layers.insert(
    layers.begin(),
    {"", [on, once] { return std::make_shared<slow_layer>(on, once); }});
  auto options = options_for(what);
  options.devices = {device};
  options.split = more_at_first(static_cast<std::int32_t>(layers.size()),
                                options.schedule.stages());
  trainer run(layers, change ? change(std::move(options)) : options);
  for (int i = 0; i < warm_up; ++i)
    run.step(small_text());
  host_reads reads;
  device->take_waits();
  *once = seconds;
  auto report = run.step(small_text());
  const auto streams = compute_streams(*run.shared_plan());
  const auto has_second = std::ranges::count(streams, 1) > 0;
  return {run.shared_plan(), std::move(report.ops), device->take_waits(),
          reads.take(), streams_of_rank + (has_second ? 1 : 0)};
}

launch_window launches_of(const step_trace& trace, std::size_t rank) {
  launch_window window;
  for (const auto& op : trace.ops.at(rank).ops)
    if (is_launch(trace, op)) {
      window.begin = window.begin == 0 ? op.host_begin : window.begin;
      window.end = std::max(window.end, op.host_end);
    }
  return window;
}

std::vector<host_wait> waits_within(const step_trace& trace, std::size_t rank) {
  const auto window = launches_of(trace, rank);
  auto waits = trace.waits;
  std::erase_if(waits, [&](const host_wait& wait) {
    return static_cast<std::size_t>(wait.stream / trace.streams_each) != rank
           || wait.begin < window.begin || wait.begin >= window.end;
  });
  return waits;
}

std::int64_t launched_by(const step_trace& trace, std::size_t rank,
                         std::int64_t time) {
  return std::ranges::count_if(
    trace.ops.at(rank).ops, [&](const op_record& op) {
      return is_launch(trace, op) && op.host_begin <= time;
    });
}

std::int64_t first_op_end(const step_trace& trace) {
  auto first = INT64_MAX;
  for (const auto& rank : trace.ops)
    for (const auto& op : rank.ops)
      if (is_launch(trace, op))
        first = std::min(first, op.end);
  return first;
}

std::vector<std::string> disordered_ops(const step_trace& trace) {
  constexpr std::int64_t clocks_differ = 1'000'000;
  std::map<std::uint32_t, op_record> records;
  for (const auto& rank : trace.ops)
    for (const auto& op : rank.ops)
      if (is_launch(trace, op))
        records.emplace(op.op, op);
  std::vector<std::string> early;
  const auto compare = [&](const op_record& earlier, const op_record& later,
                           std::int64_t tolerance) {
    if (later.begin < earlier.end - tolerance)
      early.push_back(to_text(*trace.of, trace.of->ops[later.op]) + " before "
                      + to_text(*trace.of, trace.of->ops[earlier.op]));
  };
  const op_record* before = nullptr;
  for (const auto& [op, record] : records) {
    if (before && trace.of->rank_of(before->op) == trace.of->rank_of(op))
      compare(*before, record, 0);
    before = &record;
  }
  for (const auto& message : trace.of->messages)
    compare(records.at(message.producer), records.at(message.consumer),
            clocks_differ);
  return early;
}

void check_host_goes_on(const small_case& what, const device_pointer& on,
                        double seconds, int warm_up) {
  INFO(describe(what));
  const auto trace = trace_step(what, on, seconds, {}, warm_up);
  REQUIRE(trace.ops.size() == static_cast<std::size_t>(what.ranks));
  CHECK(trace.reads == std::vector<std::string>{});
  for (std::size_t rank = 0; rank < trace.ops.size(); ++rank) {
    INFO("rank " << rank);
    CHECK(waits_within(trace, rank).empty());
    CHECK(launches_of(trace, rank).begin > 0);
    CHECK(launches_of(trace, rank).end < first_op_end(trace));
  }
  // It does wait at the step's end, otherwise the record would prove nothing.
  CHECK(trace.waits.size() >= trace.ops.size());
}

void check_throttle(const device_pointer& on, double seconds,
                    const small_case& what) {
  constexpr int ahead = 64;
  const auto trace = trace_step(what, on, seconds);
  const auto waits = waits_within(trace, 0);
  CHECK_FALSE(waits.empty());
  for (const auto& wait : waits) {
    CHECK((wait.stream == 0 || wait.stream == streams_of_rank));
    CHECK(launched_by(trace, 0, wait.begin) > ahead);
  }
}

}  // namespace troupe::testing
