#include "troupe/training/step_profile.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/profiler.hpp"

namespace troupe {

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
  const auto temporary = temporary_name(options_.file);
  std::error_code trouble;
  try {
    ended->of.save(temporary);
  } catch (const error&) {
    std::filesystem::remove(temporary, trouble);
    throw;
  }
  std::filesystem::rename(temporary, options_.file, trouble);
  if (trouble)
    fail_io(options_.file, "written", trouble.message());
  is_written_ = true;
  spdlog::info("the profile is in {}", options_.file);
}

}  // namespace troupe
