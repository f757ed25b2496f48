#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "troupe/cli/train/train_options.hpp"

namespace troupe {
class step_profile;
}

namespace troupe::cli {

struct train_setup;

/// The file of --profile that this process writes: FILE itself in process 0,
/// and FILE with ".N" before its extension in process N. Empty: none.
std::string profile_file(const output_options& options);

/// The profile of this process; null without --profile. Throws
/// `invalid_argument` if the run is shorter than --profile-from.
std::unique_ptr<step_profile> make_profile(const train_options& options,
                                           const train_setup& setup);

}  // namespace troupe::cli
