#include "troupe/cli/train/train_profile.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "troupe/base/fail.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/training/step_profile.hpp"

namespace troupe::cli {

std::string profile_file(const output_options& options) {
  const auto process = read_environment().process;
  if (options.profile.empty() || process == 0)
    return options.profile;
  std::filesystem::path path(options.profile);
  // One that joins a job has no number when it starts.
  path.replace_extension(fmt::format(
    ".{}{}", process > 0 ? process : ::getpid(), path.extension().string()));
  return path.string();
}

std::unique_ptr<step_profile> make_profile(const train_options& options,
                                           const train_setup& setup) {
  const auto& o = options.output;
  if (o.profile.empty())
    return nullptr;
  if (options.steps < o.profile_from)
    fail(
      error_code::invalid_argument,
      "--profile-from {}: the run has {}; give a step of it, or more --steps",
      o.profile_from, counted(options.steps, "step"));
  return std::make_unique<step_profile>(
    step_profile_options{.file = profile_file(o),
                         .from = o.profile_from,
                         .steps = o.profile_steps,
                         .has_gpu = !setup.trainer.devices.empty()});
}

}  // namespace troupe::cli
