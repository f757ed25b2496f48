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
  /// The same for a command with words of its own behind the endpoint, which
  /// `take_endpoint` tells apart.
  void add_token_to(CLI::App& command);
  /// Takes the endpoint from the words, if the first one is one.
  void take_endpoint(std::vector<std::string>& words);
  /// Throws what `live_client` and `read_token` do; `invalid_argument` where
  /// there is no job to find, or several, which it names.
  live_client connect() const;
};

bool is_endpoint(const std::string& word);

/// The secret in a file; empty for no path. Throws as `read_secret` does.
std::string read_token(const std::string& path);

/// Runs `part` until it returns; Ctrl-C, SIGTERM and SIGHUP end it in order,
/// and are no error then.
void until_signal(live_client& client, const std::function<void()>& part);

}  // namespace troupe::cli
