#include "troupe/monitors/sink.hpp"

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

class calling_sink final : public sink {
 public:
  calling_sink(std::function<void(const metrics_record&)> metrics,
               std::function<void(const alert&)> alerts)
    : metrics_(std::move(metrics)), alerts_(std::move(alerts)) {}
  void write(const metrics_record& record) override {
    if (metrics_)
      metrics_(record);
  }
  void write(const alert& alert) override {
    if (alerts_)
      alerts_(alert);
  }

 private:
  std::function<void(const metrics_record&)> metrics_;
  std::function<void(const alert&)> alerts_;
};

class joined_sink final : public sink {
 public:
  explicit joined_sink(const std::vector<sink_pointer>& sinks)
    : sinks_(sinks.begin(), sinks.end()) {}
  void write(const metrics_record& record) override {
    for (const auto& each : sinks_)
      each->write(record);
  }
  void write(const alert& alert) override {
    for (const auto& each : sinks_)
      each->write(alert);
  }
  void describe(const std::vector<run_setting>& settings) override {
    for (const auto& each : sinks_)
      each->describe(settings);
  }

 private:
  std::vector<required_sink> sinks_;
};

}  // namespace

required_sink::required_sink(sink_pointer pointer) : sink_(std::move(pointer)) {
  if (!sink_)
    throw error(error_code::invalid_argument,
                "the sink is null; give one, as make_sink or callback_sink "
                "does");
}

sink_pointer join(std::vector<sink_pointer> sinks) {
  return std::make_shared<joined_sink>(sinks);
}

sink_pointer callback_sink(std::function<void(const metrics_record&)> metrics,
                           std::function<void(const alert&)> alerts) {
  return std::make_shared<calling_sink>(std::move(metrics), std::move(alerts));
}

}  // namespace troupe
