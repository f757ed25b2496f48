#include "troupe/cli/train/usual_sizes.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

bool run_in_slices(const model& layers) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!make_layer_shapes(layers, i)->runs_in_slices())
      return false;
  return true;
}

/// The number of stages that --split lists; 0: it lists none.
std::int64_t listed_stages(const partition_options& o) {
  const bool is_list = o.split.find_first_of("0123456789") != std::string::npos;
  return is_list ? std::ranges::count(o.split, ',') + 1 : 0;
}

std::int32_t stages_per_rank(const partition_options& o,
                             const built_model& model, std::int32_t usual) {
  const auto& rows = builtin_schedules();
  const auto row = std::ranges::find(rows, o.schedule, &builtin_schedule::name);
  if (usual == 1 || row == rows.end() || row->stages_per_rank.least > 1)
    return usual;
  const auto ranks = std::int64_t{o.shape.ranks};
  if (const auto listed = listed_stages(o); listed > 0)
    return listed % ranks == 0 ? static_cast<std::int32_t>(listed / ranks)
                               : usual;
  if (ranks * usual <= most_stages(o, model))
    return usual;
  spdlog::info(
    "--schedule {} runs with one stage per rank: the layers can't be cut into "
    "{} stages",
    o.schedule, ranks * usual);
  return 1;
}

std::int32_t slices(const train_options& o, const built_model& model,
                    std::int32_t usual) {
  if (usual == 1)
    return 1;
  const auto& schedule = o.partition.schedule;
  if (!run_in_slices(model.layers)) {
    spdlog::info(
      "--schedule {} runs with one slice: not all layers run in slices",
      schedule);
    return 1;
  }
  return static_cast<std::int32_t>(
    std::min<std::int64_t>(usual, o.data.batches.length));
}

}  // namespace

std::int64_t most_stages(const partition_options& o, const built_model& model) {
  return o.split == "even" ? model.blocks.last - model.blocks.first
                           : std::ssize(model.layers);
}

void set_usual_sizes(train_options& o, const built_model& model) {
  auto& shape = o.partition.shape;
  const auto usual = with_usual_sizes(
    named_or_usual(o.partition.schedule, shape), o.partition.shape);
  if (shape.stages_per_rank == 0)
    shape.stages_per_rank =
      stages_per_rank(o.partition, model, usual.stages_per_rank);
  if (shape.slices == 0)
    shape.slices = slices(o, model, usual.slices);
}

}  // namespace troupe::cli
