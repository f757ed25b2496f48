#include "troupe/monitors/monitor_log.hpp"

#include <spdlog/spdlog.h>

namespace troupe {

void log_finding(const std::string& text) {
  const auto usual = spdlog::default_logger();
  spdlog::logger log(finding_logger, usual->sinks().begin(),
                     usual->sinks().end());
  log.set_level(usual->level());
  log.warn("{}", text);
}

}  // namespace troupe
