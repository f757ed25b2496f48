#include "troupe/monitors/sink.hpp"

namespace troupe {

namespace {

class calling_sink final : public sink {
 public:
  calling_sink(std::function<void(const metrics_record&)> metrics,
               std::function<void(const alert&)> alerts,
               std::function<void()> flushes = {})
    : metrics_(std::move(metrics)),
      alerts_(std::move(alerts)),
      flushes_(std::move(flushes)) {}
  void write(const metrics_record& record) override {
    if (metrics_)
      metrics_(record);
  }
  void write(const alert& alert) override {
    if (alerts_)
      alerts_(alert);
  }
  void flush() override {
    if (flushes_)
      flushes_();
  }

 private:
  std::function<void(const metrics_record&)> metrics_;
  std::function<void(const alert&)> alerts_;
  std::function<void()> flushes_;
};

}  // namespace

sink_pointer join(std::vector<sink_pointer> sinks) {
  const auto write = [sinks](const auto& what) {
    for (const auto& each : sinks)
      each->write(what);
  };
  return std::make_shared<calling_sink>(write, write, [sinks] {
    for (const auto& each : sinks)
      each->flush();
  });
}

sink_pointer callback_sink(std::function<void(const metrics_record&)> metrics,
                           std::function<void(const alert&)> alerts) {
  return std::make_shared<calling_sink>(std::move(metrics), std::move(alerts));
}

}  // namespace troupe
