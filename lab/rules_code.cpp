#include "troupe/lab/rules_code.hpp"

#include <fmt/format.h>

namespace troupe::lab {

namespace {

std::string_view name_of(preference means) {
  constexpr std::string_view names[]{"backward",         "forward",
                                     "deep_stage",       "shallow_stage",
                                     "early_microbatch", "weight_backward_last",
                                     "early_start"};
  return names[static_cast<std::size_t>(means)];
}

std::string placement_code(const job& job) {
  const auto ranks = job.shape.ranks;
  if (job.rules.placement == "v_shaped")
    return fmt::format("troupe::placement::v_shaped({})", ranks);
  return fmt::format("troupe::placement::{}({}, {})", job.rules.placement,
                     ranks, ranks * job.shape.stages_per_rank);
}

std::string limit_code(const rule_choice& rules) {
  if (rules.in_flight == 0)
    return {};
  return fmt::format(".in_flight_limit = [](int{}) {{ return {}; }},\n     ",
                     rules.falls_by_rank ? " rank" : "",
                     rules.falls_by_rank
                       ? fmt::format("std::max({} - rank, 1)", rules.in_flight)
                       : std::to_string(rules.in_flight));
}

std::string preferences_code(const rule_choice& rules) {
  std::string text;
  for (const auto each : rules.prefer)
    text += fmt::format("{}      troupe::preference::{}",
                        text.empty() ? "" : ",\n", name_of(each));
  return text;
}

}  // namespace

std::string rules_code(const job& job) {
  const auto cost = [&](plan_op_kind kind) {
    return job.costs.of_kind[static_cast<std::size_t>(kind)];
  };
  return fmt::format(
    "#include <algorithm>\n\n"
    "#include \"troupe/schedules/rules.hpp\"\n\n"
    "troupe::schedule schedule_rules() {{\n"
    "  return troupe::build_by_rules(\n"
    "    {}, {},\n"
    "    {{{}.prefer = {{\n{}}},\n"
    "     .split_backward = {},\n"
    "     .forward = {},\n"
    "     .input_backward = {},\n"
    "     .weight_backward = {},\n"
    "     .message = {}}},\n"
    "    \"rules\");\n"
    "}}\n",
    placement_code(job), job.shape.microbatches, limit_code(job.rules),
    preferences_code(job.rules), job.rules.split_backward,
    cost(plan_op_kind::forward), cost(plan_op_kind::input_backward),
    cost(plan_op_kind::weight_backward), job.costs.message);
}

}  // namespace troupe::lab
