#include "troupe/cli/live_options.hpp"

#include <CLI/CLI.hpp>

#include <fstream>
#include <sstream>

#include "troupe/cli/signals.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe::cli {

void live_options::add_to(CLI::App& command) {
  command
    .add_option("endpoint", endpoint,
                "where the job can be reached: unix:PATH or tcp:HOST:PORT, as "
                "it logs at its start")
    ->required()
    ->type_name("ENDPOINT");
  command
    .add_option("--token-file", token_file,
                "the file with the secret that the job was given")
    ->type_name("FILE");
}

live_client live_options::connect() const {
  return live_client(endpoint, read_token(token_file));
}

std::string read_token(const std::string& path) {
  if (path.empty())
    return {};
  std::ifstream file(path);
  std::string token;
  if (!(file >> token))
    fail(error_code::invalid_argument, "{}: there is no token to read", path);
  return token;
}

void until_signal(live_client& client, const std::function<void()>& part) {
  signal_watch signals;
  signals.on_signal([&](const char*) { client.interrupt(); });
  try {
    part();
  } catch (const error& reason) {
    if (reason.code() != error_code::interrupted)
      throw;
  }
}

}  // namespace troupe::cli
