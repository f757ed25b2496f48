#include <fmt/format.h>

#include <array>
#include <string_view>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/lab/answer.hpp"
#include "troupe/lab/rules_code.hpp"
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

std::string cpp_of(const job& job) {
  if (job.source == schedule_source::catalogue) {
    make_lanes(job);  // refuses what the catalogue has not
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
  std::string known;
  for (const auto& row : formats) {
    if (row.name == format)
      return {fmt::format("{}{}", stem_of(job), row.ending),
              row.write(job, theme)};
    known += fmt::format("{}{}", known.empty() ? "" : ", ", row.name);
  }
  fail(error_code::invalid_argument,
       "unknown format '{}': known formats are {}", printable(format), known);
}

}  // namespace troupe::lab
