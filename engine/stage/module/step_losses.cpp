#include "troupe/engine/stage/module/step_losses.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/stage/module/loss_items.hpp"

namespace troupe {

step_losses::step_losses(const numerics& options, rank_device* device)
  : halt_on_nan_(options.halt_on_nan),
    weighting_(options.weighting),
    device_(device) {}

void step_losses::begin(const step_settings& settings) {
  training_ = settings.training();
  // A watched step is run again before it halts.
  halts_ = halt_on_nan_ && settings.reading != step_reading::watched;
  losses_.clear();
  expected_counts_.clear();
  equal_counts_.clear();
  on_device_.clear();
  if (settings.part == step_part::update)
    on_device_ = recorded_;
}

void step_losses::drop() {
  recorded_.clear();
  on_device_.clear();
}

void step_losses::keep() {
  recorded_ = std::exchange(on_device_, {});
  expected_counts_.clear();
}

void step_losses::add(const std::vector<loss_term>& terms,
                      const microbatch_data& data, bool first_slice) {
  const at::NoGradGuard no_grad;
  for (auto term : terms) {
    const auto items = data.items.find(term.name);
    if (training_ && weighting_ == loss_weighting::microbatches) {
      term.count =
        items == data.items.end() || items->second.divisors.numel() > 0 ? 1 : 0;
      term.counted.reset();
    } else if (items != data.items.end()) {
      expected_counts_[term.name] += first_slice ? items->second.own : 0;
    } else if (training_ && term.weight != 0) {
      equal_counts_.emplace(term.name, -1);
    }
    if (device_)
      on_device_.push_back(detached_loss(term));
    else
      count(term.name, term.value.item<double>(), count_of(term));
  }
}

void step_losses::count(const std::string& name, double value, double count) {
  if (halts_ && !std::isfinite(value))
    fail(error_code::op_failed, "the loss '{}' is {}", name, printable(value));
  if (const auto entry = equal_counts_.find(name);
      entry != equal_counts_.end()) {
    const auto before = std::exchange(entry->second, count);
    if (before >= 0 && before != count)
      refuse_uneven_counts(name, before, count);
  }
  merge(losses_, {name, value, count});
}

void step_losses::require_expected_counts() const {
  for (const auto& [name, expected] : expected_counts_) {
    const auto loss = std::ranges::find(losses_, name, &named_value::name);
    if (loss != losses_.end() && loss->count != expected)
      fail(error_code::op_failed,
           "the loss '{}' is the mean of {} items of a step, of which its "
           "`counts` told {} beforehand",
           name, loss->count, expected);
  }
}

std::vector<named_value> step_losses::take() {
  if (!on_device_.empty())
    for (const auto& [name, value, items] :
         read_losses(std::exchange(on_device_, {}), device_))
      count(name, value, items);
  require_expected_counts();
  return std::exchange(losses_, {});
}

}  // namespace troupe
