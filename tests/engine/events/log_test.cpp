#include "troupe/engine/events/log.hpp"

#include <catch2/catch_test_macros.hpp>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <memory>
#include <sstream>

using namespace troupe;

namespace {

/// Restores the default logger.
struct default_logger {
  ~default_logger() { spdlog::set_default_logger(before); }
  std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
};

}  // namespace

TEST_CASE("warnings go to standard error, or where the program wants them") {
  const default_logger restored;
  const auto initial = std::make_shared<spdlog::logger>(
    "", std::make_shared<spdlog::sinks::stdout_color_sink_mt>());
  initial->set_level(spdlog::level::err);
  spdlog::set_default_logger(initial);
  CHECK(log() != initial);
  CHECK(log()->level() == spdlog::level::err);
  CHECK(dynamic_cast<spdlog::sinks::stderr_color_sink_mt*>(
          log()->sinks().front().get())
        != nullptr);

  std::ostringstream text;
  const auto own = std::make_shared<spdlog::logger>(
    "own", std::make_shared<spdlog::sinks::ostream_sink_mt>(text));
  spdlog::set_default_logger(own);
  CHECK(log() == own);
}
