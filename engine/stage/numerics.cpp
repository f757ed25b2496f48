#include "troupe/engine/stage/numerics.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"

namespace troupe {

double learning_rate_schedule::at(std::int64_t step, double base) const {
  if (step <= warmup_steps)
    return base * static_cast<double>(step) / static_cast<double>(warmup_steps);
  const bool is_wsd = decay == shape::wsd || decay == shape::wsd_sqrt;
  const auto begin = is_wsd
                       ? std::max(warmup_steps, total_steps - cooldown_steps)
                       : warmup_steps;
  if (decay == shape::constant || total_steps == 0 || step <= begin)
    return base;
  const auto decay_steps = std::max<std::int64_t>(total_steps - begin, 1);
  const auto progress = std::min(
    1.0, static_cast<double>(step - begin) / static_cast<double>(decay_steps));
  const auto height = decay == shape::cosine
                        ? 0.5 * (1 + std::cos(std::numbers::pi * progress))
                      : decay == shape::wsd_sqrt ? 1 - std::sqrt(progress)
                                                 : 1 - progress;
  return base * (final_fraction + (1 - final_fraction) * height);
}

void require_legal(const learning_rate_schedule& schedule) {
  if (schedule.warmup_steps < 0 || schedule.total_steps < 0
      || schedule.cooldown_steps < 0)
    fail(error_code::invalid_argument,
         "the learning rate has {} steps of warm-up, {} of cooldown and {} in "
         "all; use 0 or more of each",
         schedule.warmup_steps, schedule.cooldown_steps, schedule.total_steps);
  if (!std::isfinite(schedule.final_fraction) || schedule.final_fraction < 0)
    fail(error_code::invalid_argument,
         "the last learning rate is {} times the first; use a finite number, "
         "0 or more",
         schedule.final_fraction);
}

namespace {

void require_legal(const loss_scale_options& scale) {
  for (const auto value : {scale.first(), scale.smallest})
    if (!(value > 0 && value <= largest_loss_scale))
      fail(error_code::invalid_argument,
           "the loss scale is {}; use a number above 0, and at most {:.4g}",
           value, largest_loss_scale);
  const bool raises_floor = scale.smallest > loss_scale_options{}.smallest;
  if (scale.dynamic && raises_floor && scale.first() < scale.smallest)
    fail(error_code::invalid_argument,
         "the loss scale begins at {}, below the smallest one, {}; give a "
         "larger first one, or a smaller smallest one",
         scale.first(), scale.smallest);
  if (scale.growth_interval < 1 || scale.most_skipped < 0)
    fail(error_code::invalid_argument,
         "the loss scale grows after {} steps, and {} skipped updates are too "
         "many; use 1 or more, and 0 or more",
         scale.growth_interval, scale.most_skipped);
}

}  // namespace

void require_legal(const numerics& options) {
  if (!options.loss)
    fail(error_code::invalid_argument,
         "there is no loss function; keep the default, or set `loss`");
  require_legal(options.optimizer);
  require_legal(options.parameters);
  require_legal(options.learning_rate);
  require_legal(options.dtypes);
  require_legal(options.division);
  if (options.autocast
      && options.dtypes.parameters.value_or(at::kFloat) != at::kFloat)
    throw error(error_code::invalid_argument,
                "autocast casts parameters of fp32 for each operator; omit it "
                "for 16-bit parameters");
  if (!(options.clip >= 0))
    fail(error_code::invalid_argument,
         "clip is {}; use 0 (no clipping) or a largest gradient norm",
         options.clip);
  require_legal(options.loss_scale);
}

}  // namespace troupe
