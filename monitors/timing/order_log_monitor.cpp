#include "troupe/monitors/timing/order_log_monitor.hpp"

#include <algorithm>
#include <memory>

#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

monitor order_log_monitor(const std::string& path) {
  const auto file = std::make_shared<append_file>(path);
  file->write(order_log_heading());
  // Ranks end a step in any order.
  return monitor_of_steps(
    "order_log", [file](const step_event&, std::vector<ops_event> ranks) {
      std::ranges::sort(ranks, {}, [](const ops_event& rank) {
        return std::pair(rank.source.data_rank, rank.source.rank);
      });
      std::string lines;
      for (const auto& rank : ranks) {
        std::vector<std::uint32_t> ops;
        for (const auto& op : rank.ops)
          ops.push_back(op.op);
        lines += order_log_line(*rank.plan, rank.source.step,
                                rank.source.data_rank, rank.source.rank, ops);
      }
      if (!lines.empty())
        file->write(lines);
    });
}

}  // namespace troupe
