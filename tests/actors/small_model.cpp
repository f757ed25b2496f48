#include "small_model.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "troupe/engine/data/row_order.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/engine/stage/split.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/schedules/validate.hpp"

namespace troupe::testing {

source_pointer small_text(std::int64_t rows) {
  return make_source([rows](std::int64_t index) {
    const auto length = small_gpt().length;
    auto ids = at::empty({rows, length + 1}, at::kLong);
    auto* id = ids.mutable_data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < ids.numel(); ++i)
      id[i] = static_cast<std::int64_t>(
        mix_bits(static_cast<std::uint64_t>(index * 1000 + i)) % 32);
    return microbatch_data{{ids.slice(1, 0, length).contiguous()},
                           {ids.slice(1, 1).contiguous()},
                           {},
                           rows * length};
  });
}

source_pointer rows_of(const at::Tensor& ids) {
  const auto all = ids.flatten(0, 1);
  const auto length = ids.size(-1) - 1;
  return make_source(
    [all, length](std::int64_t index) {
      const auto rows = all.select(0, index);
      return microbatch_data{{rows.slice(1, 0, length).contiguous()},
                             {rows.slice(1, 1).contiguous()},
                             {},
                             rows.size(0) * length};
    },
    all.size(0));
}

std::string first_difference(const parameter_list& a, const parameter_list& b) {
  if (a.size() != b.size())
    return fmt::format("{} parameters against {}", a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto& [name, first] = a[i];
    const auto& [other_name, second] = b[i];
    const auto x = first.contiguous(), y = second.contiguous();
    if (name != other_name || x.sizes() != y.sizes()
        || std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) != 0)
      return fmt::format("{} differs from {}", name, other_name);
  }
  return {};
}

schedule_shape shape_of(const small_case& what) {
  return {.ranks = what.ranks,
          .stages_per_rank = what.stages_per_rank,
          .microbatches = what.microbatches,
          .slices = what.slices};
}

small_case catalogue_case(const builtin_schedule& row,
                          const schedule_shape& shape) {
  return {.schedule = std::string{row.name},
          .ranks = shape.ranks,
          .stages_per_rank = shape.stages_per_rank,
          .microbatches = shape.microbatches,
          .slices = shape.slices};
}

std::string describe(const small_case& what) {
  return fmt::format(
    "{} P{} V{} m{} K{} D{} {}{}{}{} shard {} {}{}{}{}", what.schedule,
    what.ranks, what.stages_per_rank, what.microbatches, what.slices,
    what.data_parallel, what.use_sgd ? "sgd" : "adamw",
    what.recompute ? " recompute" : "", what.clip > 0 ? " clip" : "",
    what.order == lane_order::strict ? "" : " ready first",
    to_text(what.sharding.mode), what.sharding.group, what.tied ? " tied" : "",
    offloads(what.offload) ? " offloads" : "",
    what.hosting.empty()
      ? ""
      : fmt::format(" hosted by {}", fmt::join(what.hosting, ",")));
}

namespace {

/// The usual loss, and one of no weight that is infinite.
loss_function with_hit(const loss_function& usual) {
  return {[usual](const tensor_list& outputs, const microbatch_data& data) {
            auto terms = usual(outputs, data);
            terms.push_back(
              {.name = "hit", .value = at::full({}, INFINITY), .weight = 0});
            return terms;
          },
          usual.counts()};
}

numerics numerics_for(const small_case& what) {
  numerics result;
  result.optimizer = adamw{.learning_rate = 1e-2};
  if (what.use_sgd)
    result.optimizer =
      sgd{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.01};
  if (what.optimizer)
    result.optimizer = *what.optimizer;
  result.parameters = what.groups;
  result.gradient_norm = what.norm_type;
  result.loss_scale = what.loss_scale;
  result.clip = what.clip;
  result.recompute = what.recompute;
  result.autocast = what.autocast;
  result.dtypes = what.dtypes;
  result.division = what.division;
  result.accumulate_in_fp32 = what.accumulate_in_fp32;
  result.offload_optimizer = what.offload_optimizer;
  result.backward_split = what.weight_split;
  if (what.hits)
    result.loss = with_hit(result.loss);
  return result;
}

}  // namespace

trainer_options options_for(const small_case& what) {
  trainer_options options;
  options.schedule = make_schedule(what.schedule, shape_of(what));
  options.data_parallel = what.data_parallel;
  options.sharding = what.sharding;
  options.offload = what.offload;
  options.hosting = what.hosting;
  options.numerics = numerics_for(what);
  options.execution.order = what.order;
  options.execution.holds_updates = what.hits;
  options.overlap.reduce = what.overlaps;
  return options;
}

trainer trainer_for(const small_case& what, std::shared_ptr<mesh> job) {
  auto options = options_for(what);
  options.job = std::move(job);
  return {model_for(what), std::move(options)};
}

namespace {

plain_updates updates_for(const small_case& what, const schedule& lanes) {
  if (lanes.update.every == 0)
    return {};
  const auto ranges = split(model_for(what), lanes.stages());
  const auto versions = versions_of(compile(
    lanes, {.tied = tied_stages(model_for(what), ranges, what.groups)}));
  return {lanes.update.every, ranges,
          [versions](std::int32_t stage, std::int32_t microbatch) {
            return versions[std::size_t(stage)][std::size_t(microbatch)];
          }};
}

}  // namespace

plain_options plain_options_for(const small_case& what) {
  return plain_options_for(what, make_schedule(what.schedule, shape_of(what)));
}

plain_options plain_options_for(const small_case& what, const schedule& lanes) {
  plain_options plain;
  plain.microbatches = what.microbatches;
  plain.slices = what.slices;
  plain.copy_of = copies_taken(lanes);
  plain.updates = updates_for(what, lanes);
  plain.data_parallel = what.data_parallel;
  plain.numerics = numerics_for(what);
  return plain;
}

model model_for(const small_case& what) {
  auto sizes =
    small_gpt(std::max<std::int64_t>(2, what.ranks * what.stages_per_rank));
  sizes.tie_embeddings = what.tied;
  sizes.dropout = what.dropout;
  return gpt(sizes);
}

std::string compare_with_plain(const small_case& what, int steps,
                               std::function<void()> hook) {
  return compare_with_plain(model_for(what), what, steps, std::move(hook));
}

std::string compare_with_plain(const model& layers, const small_case& what,
                               int steps, std::function<void()> hook,
                               const source_pointer& text) {
  auto options = options_for(what);
  options.execution.handler_hook = std::move(hook);
  trainer run(layers, std::move(options));
  plain_loop oracle(layers, plain_options_for(what));
  const auto per_step = what.microbatches * what.data_parallel;
  for (int i = 0; i < steps; ++i) {
    run.step(text);
    oracle.step([&](std::int64_t k) { return text->at(i * per_step + k); });
  }
  run.check_replicas();
  return first_difference(run.parameters(), oracle.parameters());
}

}  // namespace troupe::testing
