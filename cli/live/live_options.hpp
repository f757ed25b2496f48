#pragma once

#include <functional>
#include <string>
#include <vector>

#include "troupe/cli/plan/fwd.hpp"
#include "troupe/monitors/live/followed_job.hpp"
#include "troupe/monitors/live/live_client.hpp"

namespace troupe::cli {

/// The flags that name a live job, for all commands that connect to one.
struct live_options {
  std::string endpoint;  // empty: the only job of this user on this machine
  std::string token_file;

  void add_to(CLI::App& command);
  /// The same for a command with further words after the endpoint;
  /// `take_endpoint` separates them.
  void add_token_to(CLI::App& command);
  /// Removes the first word and sets `endpoint` to it, if it is an endpoint.
  void take_endpoint(std::vector<std::string>& words);
  /// Waits at most so many seconds for each answer. Throws like `live_client`
  /// and `read_token`, and `invalid_argument` without a job, or with several,
  /// which it names.
  live_client connect(double patience = 5) const;
  /// The same for a client that stays when another process leads the job.
  followed_job followed() const;
  /// The endpoint to connect to. Throws `invalid_argument` as `connect`.
  std::string where(const std::string& token) const;
};

/// Logs a message that is a warning about an attached monitor; returns whether
/// it was one.
bool log_warning(const live_message& message);

bool is_endpoint(const std::string& word);

/// The secret in a file; empty for an empty path. Throws as `read_secret` does.
std::string read_token(const std::string& path);

/// Runs `part` until it returns; Ctrl-C, SIGTERM and SIGHUP end it cleanly,
/// without an error.
void run_until_signal(live_client& client, const std::function<void()>& part);
/// The same with what makes `part` throw `interrupted`, from any thread.
void run_until_signal(const std::function<void()>& interrupt,
                      const std::function<void()>& part);

}  // namespace troupe::cli
