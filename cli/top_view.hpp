#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/step_collector.hpp"

namespace troupe::cli {

/// A live job as `troupe top` shows it: its last step.
class top_view {
 public:
  /// `info` as the job answers it; the plan where it is known.
  top_view(nlohmann::json info, std::optional<plan> of);

  /// True: a step of training is complete.
  bool add(const event& what);
  /// Lines, each with a newline; with bars for a terminal.
  std::string text(bool bars) const;

 private:
  std::string head() const;
  std::string row(const ops_event& rank, bool bars) const;
  std::string op_name(std::uint32_t op) const;
  bool fits_plan() const;

  nlohmann::json info_;
  std::optional<plan> plan_;
  step_collector collector_;
  std::optional<step_event> step_;
  std::vector<ops_event> ops_;
};

}  // namespace troupe::cli
