#include "troupe/engine/stage/split.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <numeric>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/stage/layer_graph.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

void require_enough_layers(std::size_t layers, std::int32_t stages) {
  if (stages < 1 || slot(stages) > layers)
    fail(error_code::invalid_argument,
         "{} layers can't be cut into {} stages: each stage needs a layer; use "
         "1 to {} stages (ranks x stages per rank) or more layers",
         layers, stages, layers);
}

/// The number of stages that are needed if none may exceed `limit`.
std::int32_t stages_needed(const std::vector<double>& costs, double limit) {
  std::int32_t stages = 1;
  double load = 0;
  for (const auto cost : costs) {
    if (load + cost > limit) {
      ++stages;
      load = 0;
    }
    load += cost;
  }
  return stages;
}

/// The least limit on a stage's cost, chosen among all sums of neighbours.
double least_limit(const std::vector<double>& costs, std::int32_t stages) {
  auto low = *std::ranges::max_element(costs);
  auto high = std::accumulate(costs.begin(), costs.end(), 0.0);
  for (int i = 0; i < 64 && low < high; ++i) {
    const auto middle = low + (high - low) / 2;
    (stages_needed(costs, middle) <= stages ? high : low) = middle;
  }
  return high;
}

}  // namespace

stage_split split_by_cost(const std::vector<double>& costs,
                          std::int32_t stages) {
  require_enough_layers(costs.size(), stages);
  const auto limit = least_limit(costs, stages);
  const auto layers = static_cast<std::int32_t>(costs.size());
  stage_split split;
  std::int32_t index = 0;
  for (std::int32_t s = 0; s < stages; ++s) {
    const auto must_leave = stages - 1 - s;
    const auto first = index;
    double load = costs[slot(index++)];
    while (index < layers - must_leave
           && (must_leave == 0 || load + costs[slot(index)] <= limit))
      load += costs[slot(index++)];
    split.push_back({first, index});
  }
  return split;
}

stage_split split_by_hand(std::int32_t layers,
                          const std::vector<std::int32_t>& counts) {
  stage_split split;
  std::int32_t index = 0;
  for (const auto count : counts) {
    if (count < 1)
      fail(error_code::invalid_argument,
           "stage {} has {} layers; give each stage at "
           "least one",
           split.size(), count);
    split.push_back({index, index + count});
    index += count;
  }
  if (index != layers)
    fail(error_code::invalid_argument,
         "the stages hold {} layers together, the model "
         "has {}",
         index, layers);
  return split;
}

stage_split split_evenly(std::int32_t layers, layer_range blocks,
                         std::int32_t stages) {
  const auto count = blocks.last - blocks.first;
  if (stages < 1 || stages > count)
    fail(error_code::invalid_argument,
         "{} blocks can't be cut into {} stages (ranks x stages per rank); use "
         "at most {} stages, or a model of more blocks",
         count, stages, count);
  std::vector<std::int32_t> counts(slot(stages), count / stages);
  for (std::int32_t s = 0; s < count % stages; ++s)
    ++counts[slot(s)];
  counts.front() += blocks.first;
  counts.back() += layers - blocks.last;
  return split_by_hand(layers, counts);
}

std::vector<double> parameter_counts(const model& layers) {
  std::vector<double> counts;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    double count = 0;
    for (const auto& parameter : make_layer_shapes(layers, i)->parameters())
      count += static_cast<double>(parameter.numel());
    counts.push_back(count);
  }
  return counts;
}

namespace {

at::Tensor sum_of(const tensor_list& outputs) {
  at::Tensor sum;
  for (const auto& output : outputs)
    if (output.requires_grad())
      sum = sum.defined() ? sum + output.sum() : output.sum();
  return sum;
}

double seconds_of(stage_module& module, const tensor_list& inputs) {
  const auto begin = now_ns();
  if (const auto sum = sum_of(module.forward(inputs)); sum.defined())
    torch::autograd::backward({sum}, {});
  return static_cast<double>(now_ns() - begin) * 1e-9;
}

tensor_list detached(const tensor_list& values) {
  tensor_list copies;
  for (const auto& value : values) {
    auto copy = value.detach();
    copies.push_back(may_require_gradient(copy) ? copy.requires_grad_(true)
                                                : copy);
  }
  return copies;
}

/// The tensors that a layer reads of the model's inputs and of earlier layers'
/// outputs.
tensor_list inputs_of(const model& layers, std::size_t layer,
                      const std::vector<layer_read>& reads,
                      const tensor_list& model_inputs,
                      const tensor_lists& outputs) {
  tensor_list inputs;
  for (const auto& [source, index] : reads) {
    const auto& values =
      source == layer_read::model_inputs ? model_inputs : outputs[slot(source)];
    if (index == layer_read::all)
      inputs.insert(inputs.end(), values.begin(), values.end());
    else if (index < std::ssize(values))
      inputs.push_back(values[slot(index)]);
    else
      fail(error_code::invalid_argument, "{} reads tensor {} of {}",
           label_of(layers, layer), index, values.size());
  }
  return inputs;
}

}  // namespace

std::vector<double> measured_costs(const model& layers,
                                   const tensor_list& inputs, int repeats) {
  if (repeats < 1)
    fail(error_code::invalid_argument,
         "layers are timed by {} repeats; use 1 or more", repeats);
  std::vector<double> costs;
  tensor_lists outputs;  // by layer, until the last reader has read them
  const auto reads = reads_of(layers);
  std::vector<std::size_t> last_reader(layers.size(), 0);
  for (std::size_t n = 0; n < layers.size(); ++n)
    for (const auto& read : reads[n])
      if (read.layer != layer_read::model_inputs)
        last_reader[slot(read.layer)] = n;
  for (std::size_t n = 0; n < layers.size(); ++n) {
    const auto module = make_layer(layers, n);
    const auto layer_inputs =
      detached(inputs_of(layers, n, reads[n], inputs, outputs));
    std::vector<double> times;
    for (int i = 0; i < repeats; ++i)
      times.push_back(seconds_of(*module, layer_inputs));
    std::ranges::nth_element(times, times.begin() + repeats / 2);
    costs.push_back(times[slot(repeats / 2)]);
    outputs.push_back(detached(module->forward(layer_inputs)));
    for (std::size_t before = 0; before <= n; ++before)
      if (last_reader[before] <= n)
        outputs[before].clear();
  }
  return costs;
}

stage_split split(const model& layers, std::int32_t stages) {
  require_enough_layers(layers.size(), stages);
  return split_by_cost(parameter_counts(layers), stages);
}

}  // namespace troupe
