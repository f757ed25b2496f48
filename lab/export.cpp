#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <ranges>
#include <string_view>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/lab/api.hpp"
#include "troupe/schedules/cpp_text.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::lab {

namespace {

timeline picture_of(const job& job) {
  const auto plan = make_plan(job);
  return to_timeline(plan, simulate(plan, costs_for(job, plan)));
}

std::string csv_of(const job& job) {
  const auto lanes = make_lanes(job);
  compile(lanes);  // refuses deadlocks
  return to_csv(lanes);
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
    text +=
      fmt::format("{}      troupe::preference::{}", text.empty() ? "" : ",\n",
                  preference_names[static_cast<std::size_t>(each)]);
  return text;
}

/// A C++ function that generates the lanes of a job by its rules.
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

std::string cpp_of(const job& job) {
  if (job.source == schedule_source::catalogue) {
    make_lanes(job);  // refuses what the catalogue lacks
    return to_cpp_call(job.name, job.shape);
  }
  return job.source == schedule_source::rules ? rules_code(job)
                                              : to_cpp(make_lanes(job));
}

struct format_row {
  std::string_view name;
  std::string_view ending;
  std::string (*write)(const job&, svg_theme);
};

constexpr std::array formats{
  format_row{"csv", ".csv",
             [](const job& job, svg_theme) { return csv_of(job); }},
  format_row{
    "text", ".schedule",
    [](const job& job, svg_theme) { return to_text_form(make_lanes(job)); }},
  format_row{"plan", ".plan",
             [](const job& job, svg_theme) { return to_text(make_plan(job)); }},
  format_row{
    "lowered_csv", ".lowered.csv",
    [](const job& job, svg_theme) { return to_lowered_csv(make_plan(job)); }},
  format_row{"svg", ".svg",
             [](const job& job, svg_theme theme) {
               return draw_svg(picture_of(job), theme);
             }},
  format_row{
    "trace", ".trace.json",
    [](const job& job, svg_theme) { return draw_trace(picture_of(job)); }},
  format_row{"json", ".json",
             [](const job& job, svg_theme) { return to_json(make_plan(job)); }},
  format_row{"cpp", ".cpp",
             [](const job& job, svg_theme) { return cpp_of(job); }},
  format_row{"cpp_lanes", ".cpp",
             [](const job& job, svg_theme) { return to_cpp(make_lanes(job)); }},
};

std::string stem_of(const job& job) {
  return job.source == schedule_source::catalogue ? printable(job.name)
         : job.source == schedule_source::rules   ? "rules"
                                                  : "schedule";
}

}  // namespace

exported export_as(const job& job, const std::string& format, svg_theme theme) {
  const auto* row = std::ranges::find(formats, format, &format_row::name);
  if (row == formats.end())
    fail(error_code::invalid_argument,
         "unknown format '{}': known formats are {}", printable(format),
         fmt::join(formats | std::views::transform(&format_row::name), ", "));
  return {fmt::format("{}{}", stem_of(job), row->ending),
          row->write(job, theme)};
}

}  // namespace troupe::lab
