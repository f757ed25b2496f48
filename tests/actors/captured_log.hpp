#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <mutex>
#include <string>

namespace troupe::testing {

/// Records warnings and errors that are logged during its lifetime; any thread
/// may read them.
class captured_log {
 public:
  captured_log() : before_(spdlog::default_logger()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
    spdlog::set_level(spdlog::level::warn);
  }
  ~captured_log() { spdlog::set_default_logger(before_); }
  captured_log(const captured_log&) = delete;
  captured_log& operator=(const captured_log&) = delete;
  std::string text() const { return sink_->text(); }

 private:
  class text_sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    std::string text() {
      const std::scoped_lock lock(mutex_);
      return text_;
    }

   protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
      text_.append(message.payload.data(), message.payload.size());
      text_ += '\n';
    }
    void flush_() override {}

   private:
    std::string text_;
  };

  std::shared_ptr<text_sink> sink_ = std::make_shared<text_sink>();
  std::shared_ptr<spdlog::logger> before_;
};

}  // namespace troupe::testing
