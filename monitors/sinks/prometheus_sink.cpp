#include "troupe/monitors/sinks/prometheus_sink.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include "troupe/monitors/sinks/http_server.hpp"
#include "troupe/monitors/sinks/prometheus_text.hpp"

namespace troupe {

namespace {

class serving_sink final : public sink {
 public:
  explicit serving_sink(const prometheus_options& options)
    : server_({.address = options.address, .token = options.token},
              [this](const std::string& path) { return answer(path); }) {
    const auto url = fmt::format("http://{}/metrics", server_.address());
    if (options.listening)
      options.listening(url);
    else
      spdlog::info("prometheus: metrics at {}", url);
  }

  void write(const metrics_record& record) override { table_.add(record); }
  void write(const alert& alert) override { table_.add(alert); }

 private:
  http_response answer(const std::string& path) const {
    if (path != "/metrics")
      return {404, "text/plain", "it is at /metrics\n"};
    return {200, "text/plain; version=0.0.4; charset=utf-8", table_.text()};
  }

  prometheus_table table_;
  http_server server_;
};

}  // namespace

sink_pointer prometheus_sink(const prometheus_options& options) {
  return std::make_shared<serving_sink>(options);
}

}  // namespace troupe
