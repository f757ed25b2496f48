#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/step_times.hpp"

namespace troupe::cli {

/// The display of `troupe top`: the last step of a live job.
class top_view {
 public:
  /// `info` is the job's answer to /info.
  top_view(nlohmann::json info, std::optional<plan> plan);

  /// Another process of the job answers now, as `info`; steps that were shown
  /// may come again.
  void go_on_with(nlohmann::json info);
  /// Adds an event; returns true if it completes a training step that was not
  /// shown before that.
  bool add(const event& what);
  /// Lines of at most 80 columns, each with a newline; optionally with bars.
  std::string text(bool bars) const { return heading(bars) + rows(bars); }
  /// The lines above those of the ranks, wrapped at so many columns, and these,
  /// one for each rank.
  std::string heading(bool bars, std::size_t columns = 80) const;
  std::string rows(bool bars) const;
  /// None before the first step, and those without a plan.
  const std::optional<step_event>& step() const { return step_; }
  std::optional<step_times> times() const;
  std::int64_t steps() const;
  /// The same as JSON: the job's sizes, the last step (times in seconds) and
  /// `by_rank`.
  nlohmann::json json() const;

 private:
  std::string head(std::size_t columns) const;
  std::string row(const ops_event& rank, bool bars) const;
  nlohmann::json rank_json(const ops_event& rank) const;
  std::string op_name(std::uint32_t op) const;
  const op_record& last_of(const ops_event& rank) const;
  bool fits_plan() const;

  nlohmann::json info_;
  std::optional<plan> plan_;
  step_collector collector_;
  std::optional<step_event> step_;
  std::int64_t repeated_ = 0;  // the last step that may come again
  std::vector<ops_event> ops_;
  struct traffic {
    std::int64_t bytes = 0, wait = 0, resident_bytes = 0;
    std::vector<message_record> messages{};
  };
  /// The most messages in flight at one time.
  std::int64_t most_in_flight() const;

  using place = std::pair<std::int32_t, std::int32_t>;  // replica and rank
  std::map<place, traffic> gathering_, traffic_;

  traffic traffic_of(const ops_event& rank) const;
};

}  // namespace troupe::cli
