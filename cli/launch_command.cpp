#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <memory>

#include "troupe/base/error.hpp"
#include "troupe/base/patient_write.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/engine/launch/local_launcher.hpp"
#include "troupe/engine/transport/own_folder.hpp"

namespace troupe::cli {

namespace {

constexpr auto example = R"(
Example:
  troupe launch --processes 2 -- train --text book.txt --ranks 2 --steps 200

Each process gets RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE. Its output
stands after its number; when one fails, all end, and the first to fail is
named: one that was killed or signalled before those that ended as it was gone.
Exit code: that of the process that is named.)";

struct launch_settings {
  std::int32_t processes = 2;
  std::vector<std::string> command;
};

/// Whether the stream's reader has left room.
bool takes_line(bool is_error) {
  pollfd each{is_error ? STDERR_FILENO : STDOUT_FILENO, POLLOUT, 0};
  return ::poll(&each, 1, 0) != 0;
}

/// A command of this program, or another program by its path.
local_launch launch_of(const CLI::App& app, const launch_settings& settings) {
  local_launch made;
  made.processes = settings.processes;
  // Once a reader is given up after a signal, no line is printed.
  made.output = [given_up = false](std::int32_t process, std::string_view line,
                                   bool is_error) mutable {
    if (!given_up)
      given_up = !print_all(is_error ? stderr : stdout,
                            fmt::format("[{}] {}\n", process, line));
  };
  made.takes_output = takes_line;
  const auto& first = settings.command.front();
  const auto commands = app.get_subcommands(
    [&](const CLI::App* each) { return each->get_name() == first; });
  if (!commands.empty()) {
    made.program = std::filesystem::read_symlink("/proc/self/exe").string();
    made.arguments = settings.command;
    return made;
  }
  if (!std::filesystem::exists(first))
    fail(error_code::invalid_argument,
         "'{}' is neither a command of troupe nor the path of a program; write "
         "troupe launch --processes {} -- train ...",
         first, settings.processes);
  made.program = first;
  made.arguments.assign(settings.command.begin() + 1, settings.command.end());
  return made;
}

void launch(const CLI::App& app, const launch_settings& settings) {
  drop_closed_output();
  auto what = launch_of(app, settings);
  // Before the processes do, so that all find the same.
  if (const auto own = find_own_folder(); !own.trouble.empty())
    spdlog::warn("sockets are in {}, as {}", own.path, own.trouble);
  signal_watch signals;
  std::atomic<int> signal = 0;
  what.signal = &signal;
  signals.on_signal([&](const char*) {
    signal = signals.exit_code() - 128;
    end_patience();
    return std::string{};
  });
  const auto outcome = launch_locally(what);
  if (signals.exit_code() != 0)
    throw process_end("the processes were stopped by a signal",
                      signals.exit_code());
  if (outcome.exit_code != 0)
    throw process_end(fmt::format("process {} was the first to fail: {}",
                                  outcome.first_to_fail, outcome.how),
                      outcome.exit_code);
}

}  // namespace

void add_launch_command(CLI::App* command) {
  auto settings = std::make_shared<launch_settings>();
  add_value(*command, "--processes", settings->processes, "how many",
            whole_number(1, 1024))
    ->capture_default_str();
  add_value(*command, "command", settings->command,
            "the command of each process, after --: train ...")
    ->required();
  command->footer(example);
  command->callback(
    [command, settings] { launch(*command->get_parent(), *settings); });
}

}  // namespace troupe::cli
