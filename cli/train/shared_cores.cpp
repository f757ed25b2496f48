#include "troupe/cli/train/shared_cores.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/device/core_group.hpp"

namespace troupe::cli {

double usable_cores(const cgroup_limits& limits) {
  return own_cores(limits).cores;
}

std::string shared_cores_text(int ranks, int threads, double cores) {
  if (ranks < 2 || ranks * threads <= cores)
    return {};
  return fmt::format(
    "{} ranks{} share {:.3g} {}; the bubble mostly shows waiting for a core",
    ranks, threads > 1 ? fmt::format(" of {} threads", threads) : "", cores,
    cores == 1 ? "core" : "cores");
}

void log_shared_cores(const train_options& options, const train_setup& setup) {
  if (options.plain || options.devices.device != "cpu")
    return;
  const auto place = read_environment();
  const auto ranks = setup.trainer.schedule.ranks()
                     * setup.trainer.data_parallel * place.local_processes
                     / place.processes;
  const auto text = shared_cores_text(ranks, options.execution.intra_op_threads,
                                      usable_cores());
  if (!text.empty())
    spdlog::info(text);
}

}  // namespace troupe::cli
