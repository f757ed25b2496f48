#include "troupe/engine/events/log.hpp"

#include <spdlog/sinks/stdout_color_sinks.h>

namespace troupe {

namespace {

bool is_initial(const spdlog::logger& logger) {
  return logger.name().empty() && logger.sinks().size() == 1
         && dynamic_cast<const spdlog::sinks::stdout_color_sink_mt*>(
              logger.sinks().front().get())
              != nullptr;
}

}  // namespace

std::shared_ptr<spdlog::logger> log() {
  auto usual = spdlog::default_logger();
  if (usual && !is_initial(*usual))
    return usual;
  // Never destroyed: objects that outlive it may have something to say.
  static const auto& to_errors = *new auto(std::make_shared<spdlog::logger>(
    "", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()));
  if (usual)
    to_errors->set_level(usual->level());
  return to_errors;
}

}  // namespace troupe
