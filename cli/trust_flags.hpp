#pragma once

#include <string>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe::cli {

/// How the processes of a job trust each other over TCP: in one way.
struct trust_flags {
  credentials shown{};
  std::string token_file{};
};

void add_trust_flags(CLI::App& app, trust_flags& flags);
/// Throws `invalid_argument` for two ways at once, and `io` for files that
/// can't be read.
void require_trust(const trust_flags& flags);
/// With the token that is in the file.
credentials credentials_of(const trust_flags& flags);

}  // namespace troupe::cli
