#pragma once

#include <functional>
#include <string>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe::cli {

/// The flags that name a live job, shared by all commands that talk to one.
struct live_options {
  std::string endpoint;
  std::string token_file;

  void add_to(CLI::App& command);
  /// Throws what `live_client` and `read_token` do.
  live_client connect() const;
};

/// The secret in a file, without the spaces around it; empty for no path.
/// Throws `invalid_argument` where there is none.
std::string read_token(const std::string& path);

/// Runs `part` until it returns; Ctrl-C and SIGTERM end it in order, and are
/// no error then.
void until_signal(live_client& client, const std::function<void()>& part);

}  // namespace troupe::cli
