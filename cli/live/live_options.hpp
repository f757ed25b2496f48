#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe::cli {

/// The flags that name a live job, shared by all commands that talk to one.
struct live_options {
  std::string endpoint;  // empty: the only job of this user on this machine
  std::string token_file;

  void add_to(CLI::App& command);
  /// The same for a command with further words after the endpoint, to be
  /// separated by `take_endpoint`.
  void add_token_to(CLI::App& command);
  /// Removes the endpoint from the words, if the first one is one.
  void take_endpoint(std::vector<std::string>& words);
  /// Waits so many seconds for each answer. Throws like `live_client` and
  /// `read_token`; `invalid_argument` if there is no job, or several, which it
  /// names.
  live_client connect(double patience = 5) const;
};

/// Whether it is a warning about an attached monitor, which is logged.
bool log_warning(const live_message& message);

bool is_endpoint(const std::string& word);

/// The secret in a file; empty for an empty path. Throws as `read_secret` does.
std::string read_token(const std::string& path);

/// Runs `part` until it returns; Ctrl-C, SIGTERM and SIGHUP end it cleanly,
/// without an error.
void until_signal(live_client& client, const std::function<void()>& part);

}  // namespace troupe::cli
