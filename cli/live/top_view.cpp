#include "troupe/cli/live/top_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

constexpr int bar_width = 6;

std::int64_t number_in(const nlohmann::json& info, const char* name) {
  return field<std::int64_t>(info, name);
}

double seconds(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

std::int64_t duration_of(const op_record& op) {
  return op.end - op.begin;
}

std::string bar(double share) {
  std::string text;
  for (int i = 0; i < bar_width; ++i)
    text += i < share * bar_width ? "█" : "░";
  return text;
}

/// Wraps text at spaces into lines of at most `columns` columns.
std::string wrapped(std::string_view text, std::size_t columns) {
  std::string lines;
  while (text.size() > columns) {
    const auto space = text.rfind(' ', columns);
    if (space == std::string_view::npos)
      break;
    lines += std::string(text.substr(0, space)) + "\n";
    text.remove_prefix(space + 1);
  }
  return lines + std::string(text) + "\n";
}

}  // namespace

top_view::top_view(nlohmann::json info, std::optional<plan> plan)
  : info_(std::move(info)), plan_(std::move(plan)) {}

void top_view::go_on_with(nlohmann::json info) {
  info_ = std::move(info);
  collector_ = {};
  gathering_.clear();
  repeated_ = step_ ? step_->source.step : 0;
}

bool top_view::add(const event& what) {
  const auto of_rank = [&]() -> traffic& {
    const auto& place = source_of(what);
    return gathering_[{place.data_rank, place.rank}];
  };
  if (const auto* messages = std::get_if<messages_event>(&what)) {
    of_rank().messages = messages->messages;
    for (const auto& each : messages->messages) {
      of_rank().bytes += each.bytes;
      of_rank().wait += each.wait;
    }
  }
  if (const auto* memory = std::get_if<memory_event>(&what))
    of_rank().resident_bytes = memory->resident_bytes;
  if (voids_step(what))
    gathering_.clear();
  const auto* ops = collector_.add(what);
  if (!ops || source_of(what).phase != phase::training)
    return false;
  auto traffic = std::exchange(gathering_, {});
  if (std::ssize(*ops) < number_in(info_, "ranks"))
    return false;  // the step began before this view was attached
  if (source_of(what).step <= repeated_)
    return false;
  step_ = std::get<step_event>(what);
  ops_ = *ops;
  traffic_ = std::move(traffic);
  std::ranges::sort(ops_, {}, [](const ops_event& each) {
    return std::pair(each.source.data_rank, each.source.rank);
  });
  return true;
}

std::int64_t top_view::most_in_flight() const {
  std::vector<std::pair<std::int64_t, int>> changes;
  for (const auto& [rank, rank_traffic] : traffic_)
    for (const auto& each : rank_traffic.messages) {
      changes.emplace_back(each.sent, 1);
      changes.emplace_back(each.taken, -1);
    }
  std::ranges::sort(changes);
  std::int64_t now = 0, most = 0;
  for (const auto& [when, change] : changes)
    most = std::max(most, now += change);
  return most;
}

/// Another process's data may not match the plan.
bool top_view::fits_plan() const {
  return plan_ && std::ranges::all_of(ops_, [&](const ops_event& rank) {
           return rank.source.data_rank >= 0 && rank.source.data_rank < 1 << 16
                  && std::ranges::all_of(rank.ops, [&](const op_record& op) {
                       return op.op < plan_->ops.size();
                     });
         });
}

std::string top_view::op_name(std::uint32_t op) const {
  return plan_ && op < plan_->ops.size() ? to_text(*plan_, op)
                                         : fmt::format("op {}", op);
}

std::string top_view::head(std::size_t columns) const {
  return wrapped(
    fmt::format("{}: {} ranks, {} stages, {} microbatches, {} messages per "
                "step; process {}",
                field<std::string>(info_, "schedule"),
                number_in(info_, "ranks"), number_in(info_, "stages"),
                number_in(info_, "microbatches"), number_in(info_, "messages"),
                number_in(info_, "pid")),
    columns);
}

/// The last compute op. Later ops are the same in each step.
const op_record& top_view::last_of(const ops_event& rank) const {
  const auto last =
    std::find_if(rank.ops.rbegin(), rank.ops.rend(), [&](const op_record& op) {
      return plan_ && op.op < plan_->ops.size()
             && is_compute(plan_->ops[op.op].kind);
    });
  return last == rank.ops.rend() ? rank.ops.back() : *last;
}

top_view::traffic top_view::traffic_of(const ops_event& rank) const {
  const auto found = traffic_.find({rank.source.data_rank, rank.source.rank});
  return found == traffic_.end() ? traffic{} : found->second;
}

std::string top_view::row(const ops_event& rank, bool bars) const {
  const auto name =
    fmt::format("{:>3} {:>4}", rank.source.data_rank, rank.source.rank);
  if (rank.ops.empty())
    return name + "  no ops\n";
  const auto busy = busy_time(rank.ops);
  const auto slowest = *std::ranges::max_element(rank.ops, {}, duration_of);
  const auto& last = last_of(rank);
  const auto whole = std::max<std::int64_t>(1, step_->end - step_->begin);
  const auto share = static_cast<double>(busy) / static_cast<double>(whole);
  const auto rank_traffic = traffic_of(rank);
  return fmt::format(
    "{} {:>3.0f} % {}{:>8.8} {:>7.2f} {:>8.8} {:>7.2f} {:>8.2f} {:>8.3f} "
    "{:>6}\n",
    name, 100 * share, bars ? bar(share) + " " : "", op_name(last.op),
    1e3 * seconds(step_->end - last.end), op_name(slowest.op),
    1e3 * seconds(duration_of(slowest)),
    static_cast<double>(rank_traffic.bytes) / (1 << 20),
    1e3 * seconds(rank_traffic.wait), rank_traffic.resident_bytes >> 20);
}

std::optional<step_times> top_view::times() const {
  if (!step_ || !fits_plan())
    return std::nullopt;
  return times_of(*plan_, ops_);
}

std::int64_t top_view::steps() const {
  return number_in(info_, "steps");
}

std::string top_view::heading(bool bars, std::size_t columns) const {
  auto text = head(columns);
  if (!step_)
    return text
           + fmt::format("step {}: waiting for the next one\n",
                         number_in(info_, "step"));
  const auto of_plan = times();
  text += wrapped(progress_line(*step_, steps(), of_plan ? &*of_plan : nullptr),
                  columns);
  text += wrapped(
    fmt::format("step time {:.4f} s; monitors took {:.4f} s of the ranks' "
                "time; at most {} messages in flight",
                seconds(step_->end - step_->begin), step_->observe_seconds,
                most_in_flight()),
    columns);
  text +=
    fmt::format("rep rank  busy {}{:>8} {:>7} {:>8} {:>7} {:>8} {:>8} {:>6}\n",
                bars ? std::string(bar_width + 1, ' ') : "", "last", "idle ms",
                "slowest", "ms", "recv MiB", "wait ms", "MiB");
  return text;
}

std::string top_view::rows(bool bars) const {
  std::string text;
  for (const auto& rank : ops_)
    text += row(rank, bars);
  return text;
}

nlohmann::json top_view::rank_json(const ops_event& rank) const {
  const auto rank_traffic = traffic_of(rank);
  nlohmann::json row{{"replica", rank.source.data_rank},
                     {"rank", rank.source.rank},
                     {"busy", seconds(busy_time(rank.ops))},
                     {"received_bytes", rank_traffic.bytes},
                     {"waited", seconds(rank_traffic.wait)},
                     {"resident_bytes", rank_traffic.resident_bytes}};
  if (rank.ops.empty())
    return row;
  const auto slowest = *std::ranges::max_element(rank.ops, {}, duration_of);
  const auto& last = last_of(rank);
  row["last"] = op_name(last.op);
  row["idle_after_last"] = seconds(step_->end - last.end);
  row["slowest"] = op_name(slowest.op);
  row["slowest_took"] = seconds(duration_of(slowest));
  return row;
}

nlohmann::json top_view::json() const {
  nlohmann::json json_of_step;
  for (const auto* name : {"schedule", "ranks", "stages", "microbatches",
                           "messages", "steps", "step", "pid"})
    json_of_step[name] = field_of(info_, name);
  if (!step_)
    return json_of_step;
  json_of_step["step"] = step_->source.step;
  json_of_step["step_took"] = seconds(step_->end - step_->begin);
  json_of_step["monitors_took"] = step_->observe_seconds;
  json_of_step["most_in_flight"] = most_in_flight();
  for (const auto& loss : step_->losses)
    json_of_step["losses"][loss.name] =
      loss.counts() ? json_number(loss.value) : nlohmann::json();
  json_of_step["by_rank"] = nlohmann::json::array();
  for (const auto& rank : ops_)
    json_of_step["by_rank"].push_back(rank_json(rank));
  return json_of_step;
}

}  // namespace troupe::cli
