#include "troupe/monitors/sinks/file_sinks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/names.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/sinks/tensorboard_event.hpp"

namespace troupe {

namespace {

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string new_file(const std::string& folder) {
  make_folder(folder);
  static std::atomic<int> made = 0;
  return fmt::format("{}/events.out.tfevents.{:010}.{}.{}.{}", folder,
                     static_cast<std::int64_t>(wall_time()), host_name(),
                     ::getpid(), made++);
}

}  // namespace

sink_pointer tensorboard_sink(const std::string& folder) {
  const auto file = std::make_shared<append_file>(new_file(folder));
  file->write(framed(version_event(wall_time())));
  return callback_sink([file](const metrics_record& record) {
    file->write(framed(summary_event(wall_time(), record)));
  });
}

}  // namespace troupe
