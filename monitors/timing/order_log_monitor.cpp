#include "troupe/monitors/timing/order_log_monitor.hpp"

#include <algorithm>
#include <memory>

#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/timing/step_collector.hpp"

namespace troupe {

monitor order_log_monitor(const std::string& path) {
  struct state {
    explicit state(const std::string& path) : file(path) {
      file.write(order_log_heading());
    }
    append_file file;
    step_collector collector = {};
  };
  auto kept = std::make_shared<state>(path);
  monitor made;
  made.name = "order_log";
  made.wants.ops = true;
  made.wants.warnings = false;
  made.see = [kept](const event& what) {
    const auto* step = kept->collector.add(what);
    if (!step)
      return;
    auto ranks = *step;  // which end a step in any order
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
      kept->file.write(lines);
  };
  return made;
}

}  // namespace troupe
