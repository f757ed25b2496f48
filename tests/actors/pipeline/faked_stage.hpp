#pragma once

#include <atomic>
#include <set>
#include <stdexcept>

#include "troupe/actors/pipeline.hpp"
#include "troupe/engine/plan/compile.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/forward_part.hpp"

namespace troupe::testing {

/// A stage that computes nothing and calls no LibTorch function, so that the
/// thread sanitizer sees all that runs. Keeps the rules of a real one: no
/// backward without its forward, nothing left at the end.
class faked_stage final : public stage_compute, public stage_parameters {
 public:
  explicit faked_stage(bool last = false) : last_(last) {}

  void begin_step(const step_settings& settings) override {
    training_ = settings.training();
    losses_ = 0;
  }
  tensor_lists forward(microbatch_key key, tensor_lists,
                       const microbatch_data&) override {
    ++ran;
    if (fails_at == key.microbatch)
      throw std::runtime_error("faked failure");
    if (training_ && !open_.insert(key).second)
      throw std::runtime_error("a second forward");
    ++losses_;
    return {tensor_list(1)};
  }
  tensor_lists backward(op_kind kind, microbatch_key key,
                        tensor_lists) override {
    ++ran;
    if (kind != op_kind::weight_backward && open_.erase(key) == 0)
      throw std::runtime_error("a backward without its forward");
    return {tensor_list(1)};
  }
  const tensor_list& parameters() const override { return parameters_; }
  tensor_list take_gradients() override { return {}; }
  void put_gradients(tensor_list) override {}
  std::vector<double> squares() override { return {}; }
  void update(double) override { ++updates; }
  stage_result end_step() override {
    if (!open_.empty())
      throw std::runtime_error("a forward is left");
    stage_result result;
    if (last_)
      result.losses = {{"loss", 1.0, static_cast<double>(losses_)}};
    return result;
  }

  int updates = 0;
  int ran = 0;  // forwards and backwards
  std::int32_t fails_at = -1;

 private:
  bool last_;
  bool training_ = true;
  int losses_ = 0;
  std::set<microbatch_key> open_;
  tensor_list parameters_;
};

/// A pipeline of faked stages, and what it runs.
struct faked_run {
  faked_run(const schedule& order, std::int32_t replicas,
            std::function<void()> hook = {}) {
    compile_options compiling;
    compiling.data_parallel = replicas;
    training = std::make_shared<const plan>(compile(order, compiling));
    evaluation =
      std::make_shared<const plan>(compile(forward_part(order), compiling));
    pipeline_options options;
    options.placement = order.placement;
    options.execution.handler_hook = std::move(hook);
    options.stages.resize(static_cast<std::size_t>(replicas));
    for (auto& replica : options.stages)
      for (std::int32_t s = 0; s < order.stages(); ++s) {
        stages.push_back(
          std::make_shared<faked_stage>(s + 1 == order.stages()));
        replica.push_back({stages.back(), stages.back()});
      }
    for (std::int32_t s = 0; s < order.stages(); ++s)
      options.needs_data.push_back(s == 0 || s + 1 == order.stages());
    actors = std::make_unique<pipeline>(std::move(options));
  }

  step_report step() {
    step_settings settings;
    settings.step = ++steps;
    return actors->run(settings, training, source);
  }

  std::shared_ptr<const plan> training;
  std::shared_ptr<const plan> evaluation;
  std::vector<std::shared_ptr<faked_stage>> stages;
  std::shared_ptr<const microbatch_source> source =
    make_source([](std::int64_t) { return microbatch_data{}; });
  std::unique_ptr<pipeline> actors;
  std::int64_t steps = 0;
};

}  // namespace troupe::testing
