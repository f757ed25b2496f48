#include "troupe/lab/api.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "troupe/base/error.hpp"
#include "troupe/base/json_object.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/op_traits.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/plan/values.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::lab {

namespace {

using nlohmann::ordered_json;

ordered_json sizes_json(const plan& plan) {
  std::size_t ops = 0;
  for (const auto& what : plan.ops)
    ops += is_compute(what.kind) ? 1 : 0;
  return {{"name", printable(plan.schedule_name)},
          {"ranks", plan.ranks()},
          {"stages", plan.stages()},
          {"copies", plan.placement.copies()},
          {"microbatches", plan.microbatches},
          {"slices", plan.slices},
          {"ops", ops},
          {"messages", plan.messages.size()}};
}

ordered_json verdict_json(const plan& plan, const verdict& found,
                          svg_theme theme) {
  ordered_json document{{"progress", found.progress}, {"text", found.text()}};
  if (found.progress)
    return document;
  document["cycle"] = ordered_json::array();
  for (const auto& wait : found.cycle)
    document["cycle"].push_back({{"rank", wait.rank},
                                 {"op", to_text(plan, wait.op)},
                                 {"for", to_text(plan, wait.for_op)},
                                 {"text", wait.text}});
  document["svg"] = draw_deadlock(plan, found, theme);
  return document;
}

/// The ops that take a rank's time, numbered in the order of the plan.
class op_list {
 public:
  op_list(const plan& plan, const simulation& times)
    : plan_(plan), times_(times), number_(plan.ops.size(), none) {
    std::int32_t next = 0;
    for (std::uint32_t op = 0; op < plan.ops.size(); ++op)
      if (is_shown(op))
        number_[op] = next++;
  }

  /// Each: [rank, kind, stage, microbatch, slice, copy, start, end, pair,
  /// [[input, arrival]]]; `kind` is the action, `pair` 1 where the op overlaps
  /// with the next one.
  ordered_json ops() const {
    auto list = ordered_json::array();
    for (std::int32_t rank = 0; rank < plan_.ranks(); ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      for (auto op = plan_.first_op[r]; op < plan_.first_op[r + 1]; ++op)
        if (number_[op] != none)
          list.push_back(op_json(rank, op));
    }
    return list;
  }

  ordered_json critical_path() const {
    auto list = ordered_json::array();
    for (const auto op : times_.critical_path)
      if (number_[op] != none)
        list.push_back(number_[op]);
    return list;
  }

 private:
  bool is_shown(std::uint32_t op) const {
    const auto kind = plan_.ops[op].kind;
    return is_compute(kind)
           || (takes_time(kind) && times_.end[op] > times_.start[op]);
  }

  ordered_json op_json(std::int32_t rank, std::uint32_t op) const {
    const auto& what = plan_.ops[op];
    auto inputs = ordered_json::array();
    for (const auto input : plan_.dependencies_of(what))
      if (const auto from = number_[producer(input)]; from != none)
        inputs.push_back({from, times_.end[input]});
    return {rank,
            traits_of(what.kind).action,
            what.stage,
            what.microbatch,
            plan_.slices > 1 ? what.slice : none,
            what.copy,
            times_.start[op],
            times_.end[op],
            what.overlaps_next ? 1 : 0,
            std::move(inputs)};
  }

  // The op that sends the message if the input is a receive, else the input.
  std::uint32_t producer(std::uint32_t input) const {
    const auto& what = plan_.ops[input];
    return what.kind == plan_op_kind::receive
             ? plan_.messages[static_cast<std::size_t>(what.message)].producer
             : input;
  }

  const plan& plan_;
  const simulation& times_;
  std::vector<std::int32_t> number_;
};

ordered_json channels_json(const plan& plan) {
  auto list = ordered_json::array();
  for (const auto& each : plan.channels)
    list.push_back({{"from", each.from_rank},
                    {"to", each.to_rank},
                    {"carries", each.backward ? "gradients" : "outputs"},
                    {"messages", each.messages},
                    {"credits", each.credits}});
  return list;
}

void add_times(const job& job, const plan& plan, ordered_json& document) {
  const auto times = simulate(plan, costs_for(job, plan));
  document["makespan"] = times.makespan;
  document["period"] = times.period;
  document["idle"] = times.bubble;
  document["span_idle"] = times.span_bubble;
  document["idle_by_rank"] = times.idle;
  document["in_flight"] = times.in_flight;
  if (const auto sizes = sizes_for(job, plan)) {
    const auto bytes = peak_bytes(plan, times, *sizes);
    document["peak_bytes"] = bytes;
    document["fits"] =
      job.memory_limit == 0 || std::ranges::max(bytes) <= job.memory_limit;
  }
  if (plan.update.every > 0)
    document["staleness"] = std::ranges::max(staleness_of(plan));
  document["channels"] = channels_json(plan);
  const op_list list(plan, times);
  document["op_list"] = list.ops();
  document["critical_path"] = list.critical_path();
}

ordered_json deadlock_of_lanes(const job& job, svg_theme theme) {
  const auto lanes = lane_plan(make_lanes(job));
  auto document = sizes_json(lanes);
  document["verdict"] = verdict_json(lanes, verify(lanes), theme);
  return document;
}

}  // namespace

ordered_json draw(const job& job, svg_theme theme) {
  try {
    const auto plan = make_plan(job);
    auto document = sizes_json(plan);
    if (const auto unused = entries_beyond(plan, job); !unused.empty())
      document["without_effect"] = unused;
    document["verdict"] =
      verdict_json(plan, verify(plan, job.transport), theme);
    if (verify(plan).progress)
      add_times(job, plan, document);
    return document;
  } catch (const error& refusal) {
    if (refusal.code() != error_code::deadlock
        || job.source == schedule_source::rules)
      throw;
    return deadlock_of_lanes(job, theme);
  }
}

namespace {

nlohmann::json rule_json(const size_rule& rule) {
  return {{"least", rule.least}, {"most", rule.most}, {"even", rule.even}};
}

ordered_json schedules() {
  auto list = ordered_json::array();
  for (const auto& row : builtin_schedules()) {
    const auto usual =
      with_usual_sizes(row.name, {.stages_per_rank = 0, .slices = 0});
    list.push_back({{"name", row.name},
                    {"summary", row.summary},
                    {"accepts", row.accepts},
                    {"ranks", rule_json(row.ranks)},
                    {"stages_per_rank", rule_json(row.stages_per_rank)},
                    {"microbatches", rule_json(row.microbatches)},
                    {"microbatches_for_a_rank", row.microbatches_for_a_rank},
                    {"breadth", row.has_breadth},
                    {"slices", row.has_slices},
                    {"usual_stages_per_rank", usual.stages_per_rank},
                    {"usual_slices", usual.slices}});
  }
  return {{"schedules", list},
          {"most_cells", most_cells},
          {"most_ranks", most_ranks}};
}

// A field of requests in addition to those of the job.
std::string take_field(nlohmann::json& request, const char* name,
                       const char* usual) {
  std::string value{usual};
  json_object(request, "the request").read(name, value);
  if (request.is_object())
    request.erase(name);
  return value;
}

ordered_json drawn(nlohmann::json request) {
  const auto theme = parse_theme(take_field(request, "theme", "auto"));
  return draw(parse_job(request), theme);
}

ordered_json written(nlohmann::json request) {
  const auto theme = parse_theme(take_field(request, "theme", "auto"));
  const auto format = take_field(request, "format", "csv");
  const auto output = export_as(parse_job(request), format, theme);
  return {{"file", output.file}, {"text", output.text}};
}

ordered_json respond(const std::string& path, std::string_view body) {
  if (path == "/api/schedules")
    return schedules();
  return path == "/api/draw" ? drawn(parse_request(body))
                             : written(parse_request(body));
}

}  // namespace

reply answer(const std::string& path, std::string_view body) {
  if (path != "/api/schedules" && path != "/api/draw" && path != "/api/export")
    return {404, json_text(ordered_json{{"error", "no such path"}})};
  try {
    return {200, json_text(respond(path, body))};
  } catch (const error& refusal) {
    return {400, json_text(ordered_json{{"error", refusal.what()}})};
  }
}

}  // namespace troupe::lab
