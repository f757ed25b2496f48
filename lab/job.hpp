#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/cost/costs.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/schedules/rules.hpp"

namespace troupe::lab {

/// Bounds of a request, so that its answer takes less than a second.
inline constexpr std::int64_t most_cells =
  4096;  // stages x microbatches x slices
inline constexpr std::int32_t most_ranks = 64;
inline constexpr std::size_t most_request_bytes = std::size_t{1} << 18;

/// The source of a schedule.
enum class schedule_source : std::uint8_t {
  catalogue,  // by its name
  text,       // CSV, the text form, or a plan
  rules,      // generated
};

/// The names by which requests choose these values.
inline constexpr std::array<std::string_view, 6> preference_names{
  "backward",      "forward",          "deep_stage",
  "shallow_stage", "early_microbatch", "weight_backward_last"};

/// The part of `lane_rules` that a request chooses. Durations are the job's
/// costs.
struct rule_choice {
  std::vector<preference> prefer{preference::backward};
  /// The most activations on rank 0; 0: unlimited.
  std::int32_t in_flight = 0;
  /// One less on each further rank, but at least 1.
  bool falls_by_rank = false;
  bool split_backward = false;
  std::string placement = "looped";  // v_shaped, waves
};

/// A schedule and the job that runs it. Times and bytes are in any unit.
struct job {
  schedule_source source = schedule_source::catalogue;
  std::string name{};
  std::string text{};
  rule_choice rules{};
  schedule_shape shape{};
  op_costs costs{};
  std::optional<value_sizes> sizes{};
  /// Costs and sizes apply to all layers of a rank, and are divided among its
  /// stages and slices.
  bool costs_of_rank = false;
  double memory_limit = 0;  // bytes of a rank; 0: none
  transport_model transport{};
  std::int32_t credits = 0;  // of each channel; 0: those of the plan
};

/// Parses a request's JSON. Throws `error` (invalid_argument) for invalid JSON,
/// for more than `most_request_bytes`, and for nesting beyond 16 levels.
nlohmann::json parse_request(std::string_view text);

/// Reads a request. Throws `error` (invalid_argument, malformed_text) that
/// names the field and its valid values.
job parse_job(const nlohmann::json& request);

/// The job's schedule as lanes, also that of a plan. Throws `error` for what
/// the catalogue, the parsers and the rules refuse, and for more cells than
/// `most_cells`.
schedule make_lanes(const job& job);

/// The job's plan; a plan's text is used unchanged. Throws `error` as
/// `make_lanes` does, and (deadlock) if the lanes wait for each other.
plan make_plan(const job& job);

/// The costs of a plan's ops, and the sizes of its values.
op_costs costs_for(const job& job, const plan& plan);
std::optional<value_sizes> sizes_for(const job& job, const plan& plan);

/// The costs and sizes of stages and ranks that the plan does not have.
std::vector<std::string> entries_beyond(const plan& plan, const job& job);

}  // namespace troupe::lab
