#include "troupe/cli/log_listener.hpp"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <utility>

#include "troupe/monitors/monitor_log.hpp"

namespace troupe::cli {

namespace {

class listening_sink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void set(log_listener::function hear) {
    const std::scoped_lock lock(mutex_);
    hear_ = std::move(hear);
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const std::string_view logger(message.logger_name.data(),
                                  message.logger_name.size());
    if (hear_ && message.level >= spdlog::level::warn
        && logger != finding_logger)
      hear_(message.level == spdlog::level::warn ? "warning" : "error",
            {message.payload.data(), message.payload.size()});
  }
  void flush_() override {}

  log_listener::function hear_;
};

listening_sink& log_sink() {
  static const auto sink = std::make_shared<listening_sink>();
  return *sink;
}

}  // namespace

void add_listening_sink() {
  // A pointer without ownership: the sink lives as long as the process.
  spdlog::default_logger()->sinks().push_back(
    std::shared_ptr<listening_sink>(std::shared_ptr<void>(), &log_sink()));
}

log_listener::log_listener(function hear) {
  log_sink().set(std::move(hear));
}

log_listener::~log_listener() {
  log_sink().set({});
}

}  // namespace troupe::cli
