#include "troupe/cli/train/train_dashboard.hpp"

#include <spdlog/spdlog.h>

#include "troupe/base/error.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/monitors/sinks/http_address.hpp"

namespace troupe::cli {

void require_dashboard(const access_options& options) {
  if (!options.dashboard.empty())
    require_servable(options.dashboard,
                     read_token(options.dashboard_token_file));
  else if (!options.dashboard_token_file.empty())
    throw error(error_code::invalid_argument,
                "--dashboard-token-file requires --dashboard HOST:PORT");
}

std::unique_ptr<dashboard> open_dashboard(const trainer& run,
                                          const train_options& options) {
  if (options.access.dashboard.empty())
    return nullptr;
  dashboard_subject subject;
  subject.plan = run.shared_plan();
  subject.data_parallel = options.partition.data_parallel;
  subject.steps = options.steps;
  subject.health = [&run] { return run.health(); };
  auto made = std::make_unique<dashboard>(
    std::move(subject),
    dashboard_options{options.access.dashboard,
                      read_token(options.access.dashboard_token_file)});
  spdlog::info("dashboard: {}", made->url());
  return made;
}

}  // namespace troupe::cli
