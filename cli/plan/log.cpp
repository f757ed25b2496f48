#include "troupe/cli/plan/log.hpp"

#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "troupe/base/plain_text.hpp"

namespace troupe::cli {

namespace {

class plain_sink final : public spdlog::sinks::ansicolor_stderr_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const auto text =
      plain_text({message.payload.data(), message.payload.size()});
    auto plain = message;
    plain.payload = text;
    spdlog::sinks::ansicolor_stderr_sink_mt::log(plain);
  }
};

}  // namespace

void open_log() {
  spdlog::set_default_logger(
    std::make_shared<spdlog::logger>("troupe", std::make_shared<plain_sink>()));
  spdlog::set_pattern("troupe: %^%l%$: %v");
}

}  // namespace troupe::cli
