#include "troupe/training/step_profile.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/profiler.hpp"

namespace troupe {

namespace {

/// A path for Kineto to write to: beside the profile, or in the folder for
/// temporary files if the profile is a pipe or a device. The destructor removes
/// the file and Kineto's own temporary one.
struct temporary_trace {
  explicit temporary_trace(const std::string& file) : path(beside(file)) {}
  ~temporary_trace() {
    std::error_code ignored;
    for (const auto* end : {"", ".tmp"})
      std::filesystem::remove(path + end, ignored);
  }
  temporary_trace(const temporary_trace&) = delete;
  temporary_trace& operator=(const temporary_trace&) = delete;

  const std::string path;

 private:
  static std::string beside(const std::string& file) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    const auto status = fs::status(file, ignored);
    return temporary_name(fs::exists(status) && !fs::is_regular_file(status)
                            ? fs::temp_directory_path() / "troupe-profile.json"
                            : fs::path(file));
  }
};

void copy_atomically(const std::string& from, const std::string& to) {
  std::ifstream source(from, std::ios::binary);
  atomic_file target(to);
  std::vector<char> bytes(std::size_t{1} << 20);
  while (source.read(bytes.data(), std::ssize(bytes)) || source.gcount() > 0)
    target.write({bytes.data(), static_cast<std::size_t>(source.gcount())});
  if (source.bad())
    fail_io(from, "read", "the file can't be read whole");
  target.commit();
}

}  // namespace

struct step_profile::recording {
  explicit recording(bool has_gpu) : of(has_gpu) {}

  profiler of;
  std::optional<profiled_range> step{};
};

step_profile::step_profile(step_profile_options options)
  : options_(std::move(options)) {}

step_profile::~step_profile() = default;

void step_profile::before_step() {
  ++steps_;
  if (steps_ < options_.from || steps_ >= options_.from + options_.steps)
    return;
  if (!recording_)
    recording_ = std::make_unique<recording>(options_.has_gpu);
  recording_->step.emplace(
    [this] { return fmt::format("ProfilerStep#{}", steps_); });
}

void step_profile::after_step(bool is_last) {
  if (recording_)
    recording_->step.reset();
  if (is_last || steps_ + 1 == options_.from + options_.steps)
    write();
}

void step_profile::finish() {
  write();
  if (!is_written_)
    spdlog::warn("{}: is not written, as the run ended before its step {}",
                 options_.file, options_.from);
}

void step_profile::write() {
  if (!recording_)
    return;
  const auto ended = std::exchange(recording_, nullptr);
  ended->step.reset();
  const temporary_trace trace(options_.file);
  try {
    ended->of.save(trace.path);
  } catch (const error& reason) {
    fail_io(options_.file, "written", reason.what());
  }
  copy_atomically(trace.path, options_.file);
  is_written_ = true;
  spdlog::info("the profile is in {}", options_.file);
}

}  // namespace troupe
