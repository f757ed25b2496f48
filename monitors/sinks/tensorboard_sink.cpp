#include "troupe/monitors/sinks/tensorboard_sink.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/sinks/tensorboard_event.hpp"

namespace troupe {

namespace {

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name[0] == 0 ? "localhost" : name.data();
}

std::string made_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem)
    fail(error_code::io, "{}: can't be created: {}", folder, problem.message());
  return folder;
}

std::string new_file(const std::string& folder) {
  static std::atomic<int> made = 0;
  return fmt::format(
    "{}/events.out.tfevents.{:010}.{}.{}.{}", made_folder(folder),
    static_cast<std::int64_t>(wall_time()), host_name(), ::getpid(), made++);
}

class event_file_sink final : public sink {
 public:
  explicit event_file_sink(const std::string& folder)
    : file_(new_file(folder)) {
    file_.write(framed(version_event(wall_time())));
  }

  void write(const metrics_record& record) override {
    file_.write(framed(summary_event(wall_time(), record)));
  }

  void write(const alert&) override {}

 private:
  append_file file_;
};

}  // namespace

sink_pointer tensorboard_sink(const std::string& folder) {
  return std::make_shared<event_file_sink>(folder);
}

}  // namespace troupe
