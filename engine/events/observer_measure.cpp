// The part of an observer that measures tensors.

#include <ATen/ops/mul.h>

#include <utility>

#include "troupe/base/fnv_hash.hpp"
#include "troupe/engine/events/measured_memory.hpp"
#include "troupe/engine/events/observer.hpp"

namespace troupe {

namespace {

tensor_statistics measured_to(depth wanted, const at::Tensor& tensor) {
  return wanted == depth::extremes
           ? measure_extremes(tensor)
           : measure(tensor, wanted == depth::histogram);
}

bool is_hit(const tensor_statistics& found) {
  return found.finite() < found.count;
}

/// Kinds whose tensors have instances along dimension 0.
bool has_instances(tensor_kind kind) {
  return has(tensor_kind::activation | tensor_kind::input
               | tensor_kind::activation_gradient,
             kind);
}

/// Kinds that the update writes in place while monitors may still look.
bool changes_later(tensor_kind kind) {
  return has(
    tensor_kind::weight | tensor_kind::parameter | tensor_kind::gradient, kind);
}

constexpr auto measured_needs = tensor_needs::statistics
                                | tensor_needs::histogram
                                | tensor_needs::extremes | tensor_needs::sample;

}  // namespace

bool observer::is_on_device(const at::Tensor& tensor) const {
  return device_ && tensor.device() == device_->device();
}

void observer::record(tensor_record entry, const at::Tensor& tensor,
                      tensor_needs needs, measured_memory& measured) {
  entry.call = calls_;
  bool looks = tensor.defined() && has(needs, measured_needs);
  if (tensor.defined()) {
    const bool is_part =
      shards_ > 1
      && has(tensor_kind::parameter | tensor_kind::gradient, entry.kind);
    entry.dimensions = static_cast<std::int32_t>(
      is_part ? std::ssize(entry.owner->shape) : tensor.dim());
    entry.dtype = tensor.scalar_type();
    if (has(needs, tensor_needs::handle))
      entry.tensor =
        changes_later(entry.kind) ? tensor.detach().clone() : tensor.detach();
  }
  // Observing must not fail or wait: complex values have no statistics, and
  // those elsewhere would have to be waited for.
  if (looks
      && !(is_measurable(tensor)
           && (tensor.is_cpu() || is_on_device(tensor)))) {
    entry.content = tensor_content::other;
    looks = false;
  }
  event_.tensors.push_back(std::move(entry));
  if (looks)
    measure_last(tensor, needs, measured);
}

void observer::measure_last(const at::Tensor& tensor, tensor_needs needs,
                            measured_memory& measured) {
  auto wanted = depth_of(needs);
  if (wanted == depth::extremes && is_on_device(tensor))
    wanted = depth::statistics;  // as cheap there
  if (has(needs, tensor_needs::sample) && wanted < depth::statistics) {
    const auto plan =
      planned_rows(tensor, has_instances(event_.tensors.back().kind),
                   interest_->sampling().share);
    if (plan)
      measure_to(depth::sample, tensor, *plan, measured);
    else
      wanted = depth::statistics;
  }
  if (wanted != depth::none)
    measure_to(wanted, tensor, {}, measured);
}

/// `plan`: of a sample.
void observer::measure_to(depth wanted, const at::Tensor& tensor,
                          const row_plan& plan, measured_memory& measured) {
  auto& last = event_.tensors.back();
  const bool by_device = is_on_device(tensor);
  const auto& found = measured.get(tensor, wanted, [&] {
    measured_memory::measured result{wanted};
    if (wanted != depth::sample) {
      if (by_device)
        result.row = on_device_->add(tensor, wanted == depth::histogram);
      else
        result.statistics = measured_to(wanted, tensor);
      return result;
    }
    auto rows = drawn_rows(plan, key_of(last));
    if (by_device)
      result.row = on_device_->add_sample(tensor, plan, std::move(rows));
    else
      result.sample = estimated(plan, measure_rows(tensor, plan.width, rows));
    return result;
  });
  const bool is_sample = found.measured_depth == depth::sample;
  if (by_device)
    expected_.push_back({event_.tensors.size() - 1, found.row, is_sample});
  else if (is_sample)
    last.sample = found.sample;
  else
    last.statistics = found.statistics;
}

/// A hash of the tensor's identity in the run: the same however stages, ranks
/// and processes divide the model.
philox_key observer::key_of(const tensor_record& record) const {
  const auto& at = event_.source;
  fnv_hash hash;
  for (const std::int64_t number :
       {interest_->sampling().seed, at.step, std::int64_t(at.phase),
        std::int64_t{at.data_rank}, std::int64_t{at.microbatch},
        std::int64_t{at.slice}, std::int64_t(record.kind),
        std::int64_t{record.index}, std::int64_t{record.inner}})
    hash.add(number);
  hash.add(record.owner->name);
  hash.add(record.part);
  const auto value = hash.value();
  return {static_cast<std::uint32_t>(value),
          static_cast<std::uint32_t>(value >> 32)};
}

void observer::left(const at::Tensor& tensor) {
  if (reading_ != step_reading::watched || hit_ || !tensor.defined()
      || !is_measurable(tensor))
    return;
  const stopwatch cost(cost_);
  if (tensor.is_cpu()) {
    hit_ = is_hit(measure_extremes(tensor));
  } else if (is_on_device(tensor)) {
    watched_rows_.push_back(on_device_->add(tensor));
    on_device_->launch();
  }
}

bool observer::has_hit() {
  flush();
  return hit_;
}

void observer::resolve_watched(const std::vector<tensor_statistics>& rows) {
  for (const auto row : std::exchange(watched_rows_, {}))
    hit_ = hit_ || is_hit(rows[row]);
}

void observer::unscale_last(double factor) {
  if (factor == 1)
    return;
  auto& last = event_.tensors.back();
  if (device_ && !expected_.empty()
      && expected_.back().record + 1 == event_.tensors.size())
    expected_.back().factor = factor;
  else {
    last.statistics = scaled(last.statistics, factor);
    if (last.sample)
      last.sample = scaled(*last.sample, factor);
  }
  if (last.tensor.defined())
    last.tensor = last.tensor * factor;
}

}  // namespace troupe
