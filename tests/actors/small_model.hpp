#pragma once

#include "troupe/actors/trainer.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/plan/lane_executor.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::testing {

/// A GPT so small that a test trains hundreds of runs per minute.
inline gpt_options small_gpt(std::int64_t layers = 4) {
  return {.width = 16,
          .layers = layers,
          .heads = 2,
          .length = 8,
          .vocabulary = 32,
          .seed = 7};
}

/// Deterministic token rows; microbatch i depends on i alone.
source_pointer small_text(std::int64_t rows = 2);
/// The tokens of each microbatch of each step in `ids` [steps, microbatches,
/// rows, length + 1], with the next tokens as targets.
source_pointer rows_of(const at::Tensor& ids);

/// Describes the first difference in bits between two runs' parameters; empty
/// without one.
std::string first_difference(const parameter_list& a, const parameter_list& b);

struct small_case {
  std::string schedule = "1f1b";
  std::int32_t ranks = 2;
  std::int32_t stages_per_rank = 1;
  std::int32_t microbatches = 4;
  std::int32_t slices = 1;
  std::int32_t data_parallel = 1;
  bool use_sgd = false;
  bool recompute = false;
  double clip = 0;
  std::optional<at::ScalarType> autocast = {};
  parameter_dtypes dtypes = {};
  gradient_division division = {};
  bool accumulate_in_fp32 = true;
  lane_order order = lane_order::strict;
  bool overlaps = true;  // reductions with compute ops
  troupe::weight_split weight_split = troupe::weight_split::automatic;
  std::optional<optimizer_options> optimizer = {};  // replaces use_sgd
  parameter_groups groups = {};
  troupe::norm_type norm_type = troupe::norm_type::two;
  loss_scale_options loss_scale = {};
  sharding_options sharding = {};
  bool offload_optimizer = false;
  bool tied = false;  // the head's weight is the embedding's
  double dropout = 0;
  offload_options offload = {};
  std::vector<std::int32_t> hosting = {};  // as in trainer_options
  /// Updates wait, so that steps can be watched, and each step has a hit: a
  /// loss that is only reported, and infinite.
  bool hits = false;
};

schedule_shape shape_of(const small_case& what);
/// A case with a built-in schedule of that shape.
small_case catalogue_case(const builtin_schedule& row,
                          const schedule_shape& shape);

std::string describe(const small_case& what);
trainer_options options_for(const small_case& what);
/// The trainer of a process in a job; null: without a job.
trainer trainer_for(const small_case& what, std::shared_ptr<mesh> job);
plain_options plain_options_for(const small_case& what);
/// For these lanes instead of the case's schedule.
plain_options plain_options_for(const small_case& what, const schedule& lanes);
model model_for(const small_case& what);

/// Trains `steps` steps with the trainer and the plain loop; empty if the
/// parameters are bit-identical.
std::string compare_with_plain(const small_case& what, int steps = 5,
                               std::function<void()> hook = {});
/// The same for another model, and optionally another text.
std::string compare_with_plain(const model& layers, const small_case& what,
                               int steps, std::function<void()> hook = {},
                               const source_pointer& text = small_text());

}  // namespace troupe::testing
