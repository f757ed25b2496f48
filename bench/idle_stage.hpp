#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe {

/// A stage without parameters, which computes nothing.
class idle_stage : public stage_compute, public stage_parameters {
 public:
  void begin_step(const step_settings&) override {}
  stage_result end_step() override { return {}; }
  const tensor_list& parameters() const override { return none_; }
  tensor_list take_gradients() override { return {}; }
  void put_gradients(tensor_list, at::Tensor) override {}
  std::vector<double> norm_powers() override { return {}; }
  std::string name_of_power(std::size_t) const override { return {}; }
  void update(double) override {}
  std::shared_ptr<stage_state> read_version(std::int32_t, bool) override {
    return {};
  }
  void read_again(const std::shared_ptr<stage_state>&) override {}

 private:
  tensor_list none_;
};

/// One replica that runs a plan's ops with such stages, in the order of
/// `placement::instances`.
inline pipeline_options options_of(const plan& of, std::vector<stage> stages) {
  pipeline_options options;
  options.places = of.placement;
  options.stages = {std::move(stages)};
  options.needs_data.assign(static_cast<std::size_t>(of.stages()), false);
  return options;
}

/// Two ranks with 8 microbatches, and two stages per rank and two slices if the
/// schedule supports them.
inline schedule on_two_ranks(const builtin_schedule& row) {
  return make_schedule(
    row.name, {.ranks = 2,
               .stages_per_rank = std::min(2, row.stages_per_rank.most),
               .microbatches = 8,
               .slices = row.has_slices ? 2 : 1});
}

}  // namespace troupe
