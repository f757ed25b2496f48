#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// In which order the ranks of all replicas start their ops in one step:
/// orders[data rank x ranks + rank], indices into plan::ops.
using step_orders = std::vector<std::vector<std::uint32_t>>;

/// The orders in which a run started its ops, by training step, to run them so
/// again: a text whose lines name them as a plan's text does,
///
///   troupe orders 1
///   step 1 replica 0 rank 0: 0F0 0SEND_F0 0F1 ...
class order_log {
 public:
  /// Throws `error` (malformed_text) with line and reason.
  order_log(std::string_view text, std::string_view source);

  /// The orders of a step. Throws `error` (invalid_argument) if the log has no
  /// such step, names other ops than the plan's, or an order that could not
  /// take place.
  step_orders orders_of(const plan& plan, std::int32_t data_ranks,
                        std::int64_t step) const;

 private:
  std::string source_;
  /// By step, replica and rank.
  std::map<std::tuple<std::int64_t, std::int32_t, std::int32_t>,
           std::vector<std::string>>
    lines_;
};

order_log load_order_log(const std::string& path);

/// The first line of a log, and the line of a rank in a step, with their ends.
std::string order_log_heading();
std::string order_log_line(const plan& plan, std::int64_t step,
                           std::int32_t data_rank, std::int32_t rank,
                           const std::vector<std::uint32_t>& ops);

}  // namespace troupe
