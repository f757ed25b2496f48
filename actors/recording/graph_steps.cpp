#include "troupe/actors/recording/graph_steps.hpp"

#include <algorithm>
#include <utility>

#include "troupe/actors/coordination/loader_actor.hpp"
#include "troupe/actors/step/recording.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/thrown.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/stage/microbatch.hpp"
#include "troupe/engine/stage/module/on_device.hpp"
#include "troupe/engine/stage/random_draws.hpp"

namespace troupe {

namespace {

bool alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type();
}

bool fits(const microbatch_data& data, const microbatch_data& place) {
  const auto same_name = [](const auto& a, const auto& b) {
    return a.first == b.first;
  };
  return data.inputs.size() == place.inputs.size()
         && std::ranges::equal(data.arguments, place.arguments, same_name)
         && std::ranges::equal(tensors_of(data), tensors_of(place), alike);
}

/// Whether an update has no item that a loss counts, so that it has no
/// gradient.
bool lacks_items(const microbatch_data& data) {
  return std::ranges::any_of(data.items, [](const auto& each) {
    return each.second.divisors.numel() == 0;
  });
}

accelerator& accelerator_of(const graph_steps_setup& setup) {
  return *setup.devices.of(0, 0)->hardware();
}

std::int64_t tokens_of(const std::vector<microbatch_data>& step) {
  std::int64_t tokens = 0;
  for (const auto& data : step)
    tokens += data.tokens;
  return tokens;
}

}  // namespace

graph_steps::graph_steps(graph_steps_setup setup)
  : setup_(std::move(setup)),
    gradients_(std::make_shared<const plan>(gradients_of(*setup_.whole))),
    update_(std::make_shared<const plan>(update_of(*setup_.whole))),
    origin_(accelerator_of(setup_).make_stream()) {
  const auto replicas = static_cast<std::int32_t>(setup_.stages.size());
  const auto copies =
    static_cast<std::size_t>(setup_.whole->placement.copies());
  auto loading = setup_.loading;
  if (loading.prefetch > 0)
    loading.prefetch = setup_.whole->microbatches;
  for (std::int32_t d = 0; d < replicas; ++d)
    loaders_.emplace_back(
      loader_setup{.data_rank = d,
                   .data_ranks = replicas,
                   .consumers = std::vector<std::int32_t>(copies, 1),
                   .loading = loading,
                   .counter = setup_.counter},
      [this, d](const loader_core::place& place, double seconds) {
        auto source = now_;
        source.step += place.steps_ahead;
        source.data_rank = d;
        source.microbatch = place.microbatch;
        setup_.actors->publish(slow_load_event{source, seconds});
      });
}

/// Tensors in the graph's memory are let go of before it.
graph_steps::~graph_steps() {
  forget();
}

step_report graph_steps::run(const step_settings& of_step,
                             const source_pointer& source) {
  auto settings = setup_.actors->with_wishes(of_step, *setup_.whole);
  const bool looked_into =
    settings.interest || settings.tells_messages || settings.tells_ops;
  if (looked_into && warm_ && !off_ && !std::exchange(has_logged_, true))
    log()->info(
      "step {} runs op by op, as do others that monitors look into: they are "
      "not launched as graphs",
      settings.step);
  if (looked_into || off_ || !warm_)
    return run_as_usual(settings, source);
  settings.began = now_ns();
  now_.step = settings.step;
  now_.phase = settings.phase;
  const auto step = load(settings, source);
  if (step.empty() || std::ranges::any_of(step, lacks_items)
      || !prepare(settings, step))
    return run_as_usual(settings, source);
  launch();
  load_ahead();
  settings.part = step_part::update;
  settings.tokens = tokens_of(step);
  return setup_.actors->run_part(settings, update_, source, {}, setup_.whole);
}

std::vector<microbatch_data> graph_steps::load(const step_settings& settings,
                                               const source_pointer& source) {
  const auto step = std::make_shared<step_context>(
    step_context{0, settings, setup_.whole, source});
  std::vector<microbatch_data> loaded;
  try {
    for (auto& loader : loaders_) {
      loader.begin(*step, source);
      for (std::int32_t m = 0; m < setup_.whole->microbatches; ++m)
        loaded.push_back(*loader.on({step, {}, m}).data);
    }
  } catch (...) {
    return {};
  }
  return loaded;
}

/// What can't be made is reported when it is wanted.
void graph_steps::load_ahead() {
  try {
    for (auto& loader : loaders_)
      while (loader.prefetch()) {
      }
  } catch (...) {
  }
}

step_report graph_steps::run_as_usual(const step_settings& settings,
                                      const source_pointer& source) {
  auto report = setup_.actors->run_part(settings, setup_.whole, source);
  warm_ = true;
  return report;
}

/// Lets there be a graph that reads this step's microbatches.
bool graph_steps::prepare(const step_settings& settings,
                          const std::vector<microbatch_data>& step) {
  if (inputs_.empty())
    for (const auto& data : step)
      inputs_.push_back(to_device(data, *origin_));
  else if (std::ranges::equal(step, inputs_, fits))
    copy_to_inputs(step);
  else
    return false;
  set_draw_keys(settings);
  return (graph_ && recorded_scale_ == settings.loss_scale) || record(settings);
}

void graph_steps::copy_to_inputs(const std::vector<microbatch_data>& step) {
  for (std::size_t i = 0; i < step.size(); ++i) {
    const auto source = tensors_of(step[i]);
    const auto target = tensors_of(inputs_[i]);
    for (std::size_t t = 0; t < source.size(); ++t)
      copy_to_device(source[t], target[t], *origin_);
  }
}

void graph_steps::set_draw_keys(const step_settings& settings) {
  const auto keys = draw_keys(setup_.seed, settings.step,
                              settings.first_microbatch, std::ssize(inputs_));
  if (draw_keys_.defined())
    copy_to_device(keys, draw_keys_, *origin_);
  else
    draw_keys_ = to_device(keys, *origin_);
}

bool graph_steps::record(const step_settings& settings) {
  forget();
  bool ended = false;
  try {
    graph_ = accelerator_of(setup_).record_graph(
      *origin_, [&] { run_recorded(settings, ended); });
  } catch (...) {
    if (!ended)  // the run itself has failed, or was interrupted
      throw;
    give_up(thrown_text());
    return false;
  }
  recorded_scale_ = settings.loss_scale;
  return true;
}

/// All streams of the ranks are recorded from the origin's first point on.
void graph_steps::run_recorded(const step_settings& settings, bool& ended) {
  auto part = settings;
  part.part = step_part::gradients;
  part.first_microbatch = 0;
  part.draw_keys = draw_keys_;
  part.tells_memory = false;
  part.reading = step_reading::once;  // nobody reads in a recording
  const auto recorded = std::make_shared<recording>();
  const auto source = make_source(
    [held = inputs_](std::int64_t index) {
      return held[static_cast<std::size_t>(index)];
    },
    std::ssize(inputs_));
  std::vector<event_handle> reduced;
  const auto begin = origin_->record();
  each_device([&](rank_device& rank) { rank.wait_for(*begin); });
  try {
    reduced =
      setup_.actors->run_part(part, gradients_, source, recorded).reduced;
  } catch (...) {
    recorded->fail("the run has ended");
    throw;
  }
  ended = true;
  if (const auto problem = recorded->problem(); !problem.empty())
    throw error(error_code::device, problem);
  join(reduced);
}

void graph_steps::join(const std::vector<event_handle>& reduced) {
  for (const auto& done : reduced)
    origin_->wait_for(*done);
  each_device([&](rank_device& rank) {
    rank.join();
    origin_->wait_for(*rank.compute().record());
  });
}

/// The last step's update is over when the time is noted, for which the host
/// waits; it does not for the graph, which ops that follow come after.
void graph_steps::launch() {
  ++launches_;
  each_device([&](rank_device& rank) { rank.begin_step(-launches_); });
  graph_->launch(*origin_);
  const auto done = origin_->record();
  each_device([&](rank_device& rank) { rank.wait_for(*done); });
}

void graph_steps::give_up(const std::string& why) {
  log()->warn(
    "steps can't be recorded as graphs, so all run op by op from here on: {}",
    why);
  forget();
  inputs_.clear();
  off_ = true;
}

/// Tensors in the graph's memory first.
void graph_steps::forget() {
  for (const auto& replica : setup_.stages)
    for (const auto& stage : replica) {
      stage.compute->drop_kept();
      stage.parameters->drop_kept();
    }
  graph_.reset();
}

template <class Work>
void graph_steps::each_device(const Work& work) {
  for (const auto& replica : setup_.devices.of_ranks())
    for (const auto& rank : replica)
      work(*rank);
}

}  // namespace troupe
