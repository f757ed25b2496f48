#include "troupe/monitors/monitor_log.hpp"

#include "troupe/engine/events/log.hpp"

namespace troupe {

void log_finding(const std::string& text) {
  const auto usual = log();
  spdlog::logger out(finding_logger, usual->sinks().begin(),
                     usual->sinks().end());
  out.set_level(usual->level());
  out.warn("{}", text);
}

}  // namespace troupe
