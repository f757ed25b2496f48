#pragma once

#include <string>

#include "troupe/cli/plan/fwd.hpp"

namespace troupe::cli {

/// The manual page of the app and its commands, in the language of man(7).
std::string manual_page(const CLI::App& app);

}  // namespace troupe::cli
