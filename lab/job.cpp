#include "troupe/lab/job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/json_object.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/part.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/cell.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::lab {

namespace {

constexpr auto pasted = "the text";

rule_choice parse_rules(json_object<> object) {
  rule_choice rules;
  std::vector<std::string> names{"backward"};
  object.read("prefer", names);
  if (names.size() > preference_names.size())
    fail(error_code::invalid_argument,
         "rules.prefer has {} preferences; there are {}", names.size(),
         preference_names.size());
  rules.prefer.clear();
  for (const auto& name : names)
    rules.prefer.push_back(
      parse_named<preference>(name, preference_names, "preference"));
  object.read("in_flight", rules.in_flight, 0, most_cells);
  object.read("falls_by_rank", rules.falls_by_rank);
  object.read("split_backward", rules.split_backward);
  object.read("placement", rules.placement);
  object.require_known();
  return rules;
}

void read_shape(json_object<>& object, schedule_shape& shape) {
  object.read("ranks", shape.ranks, 1, most_ranks);
  object.read("stages_per_rank", shape.stages_per_rank, 1, most_cells);
  object.read("microbatches", shape.microbatches, 1, most_cells);
  object.read("slices", shape.slices, 1, most_cells);
  object.read("breadth", shape.breadth, 0, most_cells);
}

void read_costs(json_object<>& object, job& target) {
  std::string costs;
  object.read("costs", costs);
  target.costs = parse_costs(costs);
  object.read("atomic_pairs", target.costs.atomic_pairs);
  std::string sizes;
  object.read("sizes", sizes);
  if (!sizes.empty())
    target.sizes = parse_sizes(sizes);
  object.read("costs_of_rank", target.costs_of_rank);
  object.read("memory_limit", target.memory_limit, 0, 1e18);
}

void read_transport(json_object<>& object, job& target) {
  std::string transport{"buffered"};
  object.read("transport", transport);
  target.transport.kind = parse_transport(transport);
  object.read("shared_fifo", target.transport.shared_fifo);
  object.read("credits", target.credits, 0, most_cells);
}

void require_few_cells(const std::string& name, std::int64_t ranks,
                       std::int64_t stages, std::int64_t microbatches,
                       std::int64_t slices) {
  if (ranks > most_ranks)
    fail(error_code::invalid_argument,
         "{} has {} ranks; the lab takes {}: use troupe plan", name, ranks,
         most_ranks);
  if (const auto cells = stages * microbatches * slices; cells > most_cells)
    fail(
      error_code::invalid_argument,
      "{} has {} stages x microbatches x slices; the lab takes {}: use fewer, "
      "or troupe plan",
      name, cells, most_cells);
}

schedule limited(schedule lanes) {
  require_few_cells(lanes.name, lanes.ranks(), lanes.stages(),
                    lanes.microbatches, lanes.slices);
  return lanes;
}

placement placement_of(const job& job) {
  const auto ranks = job.shape.ranks;
  const auto stages = ranks * job.shape.stages_per_rank;
  const auto& name = job.rules.placement;
  if (name == "looped")
    return placement::looped(ranks, stages);
  if (name == "v_shaped" && stages == 2 * ranks)
    return placement::v_shaped(ranks);
  if (name == "waves" && job.shape.stages_per_rank % 2 == 0)
    return placement::waves(ranks, stages);
  if (name == "v_shaped" || name == "waves")
    fail(error_code::invalid_argument,
         "rules.placement: {} needs {} stages per rank, but there are {}", name,
         name == "waves" ? "an even number of" : "2",
         job.shape.stages_per_rank);
  fail(error_code::invalid_argument,
       "rules.placement must be one of looped, v_shaped, waves, but is '{}'",
       printable(name));
}

lane_rules rules_of(const job& job) {
  const auto cost = [&](plan_op_kind kind) {
    return job.costs.of_kind[static_cast<std::size_t>(kind)];
  };
  lane_rules rules{
    .prefer = job.rules.prefer,
    .split_backward = job.rules.split_backward,
    .forward = cost(plan_op_kind::forward),
    .input_backward = cost(plan_op_kind::input_backward),
    .weight_backward = cost(plan_op_kind::weight_backward),
  };
  rules.message_between = [costs = job.costs](auto rank, auto other) {
    return costs.message_between(rank, other).total();
  };
  if (job.rules.in_flight > 0)
    rules.in_flight_limit = [limit = job.rules.in_flight,
                             falls = job.rules.falls_by_rank](int rank) {
      return falls ? std::max(limit - rank, 1) : limit;
    };
  return rules;
}

/// Throws `invalid_argument` for an empty text.
bool has_plan_text(const job& job) {
  if (job.source != schedule_source::text)
    return false;
  if (job.text.find_first_not_of(" \t\r\n,") == std::string::npos)
    fail(error_code::invalid_argument,
         "the text is empty; paste a CSV, a schedule's text form, or a plan");
  return is_plan_text(job.text)
         || (!is_text_form(job.text)
             && is_lowered(parse_cells(job.text, pasted)));
}

plan plan_of_text(const job& job) {
  auto result = plan_from_any_text(job.text, pasted);
  limited(schedule_of(result));
  return result;
}

schedule lanes_of_text(const job& job) {
  if (has_plan_text(job))
    return schedule_of(plan_of_text(job));
  return limited(is_text_form(job.text) ? from_text_form(job.text, pasted)
                                        : from_csv(job.text, pasted));
}

void require_divisible(const job& job) {
  if (!job.costs_of_rank)
    return;
  if (!job.costs.of_stage.empty())
    fail(
      error_code::invalid_argument,
      "costs of single stages can't be divided; omit them, or costs_of_rank");
  if (job.sizes && !job.sizes->of_stage.empty())
    fail(
      error_code::invalid_argument,
      "sizes of single stages can't be divided; omit them, or costs_of_rank");
}

}  // namespace

nlohmann::json parse_request(std::string_view text) {
  constexpr int most_levels = 16;
  if (text.size() > most_request_bytes)
    fail(error_code::invalid_argument,
         "the request has {} bytes; the lab takes {}", text.size(),
         most_request_bytes);
  if (json_levels(text) > most_levels)
    fail(error_code::invalid_argument,
         "the request is nested more than {} levels deep", most_levels);
  auto request = nlohmann::json::parse(text, nullptr, false);
  if (request.is_discarded())
    fail(error_code::invalid_argument, "the request is not JSON");
  return request;
}

job parse_job(const nlohmann::json& request) {
  job result;
  json_object object(request, "the request");
  std::string source{"catalogue"};
  object.read("source", source);
  constexpr std::array<std::string_view, 3> names{"catalogue", "text", "rules"};
  result.source = parse_named<schedule_source>(source, names, "source");
  result.name = "1f1b";
  object.read("name", result.name);
  object.read("text", result.text);
  result.rules = parse_rules(object.inner("rules"));
  read_shape(object, result.shape);
  read_costs(object, result);
  read_transport(object, result);
  object.require_known();
  require_divisible(result);
  return result;
}

schedule make_lanes(const job& job) {
  if (job.source == schedule_source::text)
    return lanes_of_text(job);
  const auto& shape = job.shape;
  const bool by_rules = job.source == schedule_source::rules;
  const auto name = by_rules ? "the schedule" : printable(job.name);
  require_few_cells(name, shape.ranks,
                    std::int64_t{shape.ranks} * shape.stages_per_rank,
                    shape.microbatches, shape.slices);
  if (!by_rules)
    return make_schedule(name, shape);
  if (shape.slices > 1)
    fail(error_code::invalid_argument, "slices must be 1 with rules, but is {}",
         shape.slices);
  return build_by_rules(placement_of(job), shape.microbatches, rules_of(job),
                        "rules");
}

plan make_plan(const job& job) {
  auto result =
    has_plan_text(job) ? plan_of_text(job) : compile(make_lanes(job));
  for (auto& channel : result.channels)
    if (job.credits > 0)
      channel.credits = std::min(channel.bound, job.credits);
  return result;
}

op_costs costs_for(const job& job, const plan& plan) {
  return job.costs_of_rank ? divided(job.costs, division_of(plan)) : job.costs;
}

std::optional<value_sizes> sizes_for(const job& job, const plan& plan) {
  auto sizes = job.sizes;
  if (sizes && job.costs_of_rank)
    sizes->usual = divided(sizes->usual, division_of(plan));
  return sizes;
}

std::vector<std::string> entries_beyond(const plan& plan, const job& job) {
  std::vector<std::string> unmatched;
  for (const auto& entry : job.costs.entries)
    if ((entry.stage && *entry.stage >= plan.stages())
        || (entry.link && entry.link->second >= plan.ranks()))
      unmatched.push_back(entry.text);
  if (job.sizes)
    for (const auto& [stage, size] : job.sizes->of_stage)
      if (stage >= plan.stages())
        unmatched.push_back(fmt::format("sizes of stage {}", stage));
  return unmatched;
}

}  // namespace troupe::lab
