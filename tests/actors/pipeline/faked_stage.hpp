#pragma once

#include <atomic>
#include <stdexcept>

#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/forward_part.hpp"

namespace troupe::testing {

/// A stage that computes nothing and calls no LibTorch function, so that the
/// thread sanitizer sees all code. Like a real stage, it runs a backward only
/// with the state that the microbatch's forward, or I, returned.
class faked_stage final : public stage_compute, public stage_parameters {
 public:
  explicit faked_stage(bool last = false) : last_(last) {}

  void begin_step(const step_settings& settings) override {
    training_ = settings.training();
    losses_ = 0;
  }
  op_outputs forward(microbatch_key key, tensor_lists, const microbatch_data&,
                     stage_states states) override {
    ++ran;
    if (fails_at == key.microbatch)
      throw std::runtime_error("faked failure");
    ++losses_;
    if (key.slice > 0 && !states.carry)
      throw std::runtime_error("a slice without what the one before has left");
    op_outputs outputs{{tensor_list(1)}};
    outputs.states.carry = std::make_shared<faked_state>(op_kind::forward, key);
    if (training_)
      outputs.states.context =
        std::make_shared<faked_state>(op_kind::forward, key);
    return outputs;
  }
  op_outputs backward(op_kind kind, microbatch_key key, tensor_lists,
                      stage_states states) override {
    ++ran;
    const bool weights = kind == op_kind::weight_backward;
    const auto* from = dynamic_cast<faked_state*>(
      (weights ? states.deferred : states.context).get());
    if (from == nullptr || from->key != key
        || from->by != (weights ? op_kind::input_backward : op_kind::forward))
      throw std::runtime_error("a backward without what it needs");
    op_outputs outputs;
    if (!weights) {
      outputs.tensors = {tensor_list(1)};
      outputs.states.carry = std::make_shared<faked_state>(kind, key);
    }
    if (kind == op_kind::input_backward)
      outputs.states.deferred = std::make_shared<faked_state>(kind, key);
    return outputs;
  }
  const tensor_list& parameters() const override { return parameters_; }
  tensor_list take_gradients() override { return {}; }
  using stage_parameters::put_gradients;
  void put_gradients(tensor_list, at::Tensor) override {}
  std::vector<double> norm_powers() override { return {}; }
  std::string name_of_power(std::size_t) const override { return {}; }
  void update(double) override { ++updates; }
  stage_result end_step() override {
    stage_result result;
    if (last_)
      result.losses = {{"loss", 1.0, static_cast<double>(losses_)}};
    return result;
  }

  int updates = 0;
  int ran = 0;  // forwards and backwards
  std::int32_t fails_at = -1;

 private:
  struct faked_state final : stage_state {
    faked_state(op_kind op, microbatch_key of) : by(op), key(of) {}
    op_kind by;
    microbatch_key key;
  };

  bool last_;
  bool training_ = true;
  int losses_ = 0;
  tensor_list parameters_;
};

/// A pipeline of faked stages, and the threads that run it.
struct faked_run {
  faked_run(const schedule& order, std::int32_t replicas,
            std::function<void()> hook = {}) {
    compile_options compiling;
    compiling.data_parallel = replicas;
    training = std::make_shared<const plan>(compile(order, compiling));
    evaluation =
      std::make_shared<const plan>(compile(forward_part(order), compiling));
    pipeline_options options;
    options.places = order.placement;
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
