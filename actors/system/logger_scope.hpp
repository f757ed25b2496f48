#pragma once

#include <caf/logger.hpp>

namespace troupe {

/// CAF keeps the logger of an actor system for each thread that has made the
/// system or asked an actor, and a system's end waits until no thread has it.
/// This gives it back, so that a thread that lives on holds up no end, and the
/// end of a thread, after which static objects are destroyed, none either.
/// Declare it before what uses CAF.
class logger_scope {
 public:
  logger_scope() = default;
  ~logger_scope() { caf::logger::set_current_actor_system(nullptr); }
  logger_scope(const logger_scope&) = delete;
  logger_scope& operator=(const logger_scope&) = delete;
};

}  // namespace troupe
