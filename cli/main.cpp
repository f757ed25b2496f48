#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>

#include <algorithm>

#include "troupe/cli/attach_arguments.hpp"
#include "troupe/cli/attach_command.hpp"
#include "troupe/cli/certificates_command.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/events_command.hpp"
#include "troupe/cli/launch_command.hpp"
#include "troupe/cli/plan_command.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/simulate_command.hpp"
#include "troupe/cli/top_command.hpp"
#include "troupe/cli/train_command.hpp"
#include "troupe/cli/train_failure.hpp"
#include "troupe/cli/verify_command.hpp"
#include "troupe/schedules/error.hpp"
#include "troupe_version.hpp"

namespace {

constexpr int wrong_usage = 2;

std::vector<std::string> arguments_of(int argc, char** argv, CLI::App& app) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty())
    return arguments;
  const auto command = arguments.front();
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (command == "train")
    rest =
      troupe::cli::expand_config(std::move(rest), *app.get_subcommand("train"));
  if (command == "attach")
    rest = troupe::cli::fold_settings(std::move(rest));
  rest.insert(rest.begin(), command);
  return rest;
}

void require_known_command(const std::vector<std::string>& arguments,
                           const CLI::App& app) {
  if (arguments.empty() || arguments.front().starts_with('-'))
    return;
  std::vector<std::string> known;
  for (const auto* command : app.get_subcommands({}))
    known.push_back(command->get_name());
  if (std::ranges::find(known, arguments.front()) == known.end())
    troupe::fail(troupe::error_code::invalid_argument,
                 "unknown command '{}': the known ones are {}",
                 arguments.front(), fmt::join(known, ", "));
}

/// Never throws: standard error may be as full as standard output.
int complain(const char* kind, const char* what, int code) {
  std::fputs(fmt::format("troupe: {}{}\n", kind, what).c_str(), stderr);
  return code;
}

/// Of `troupe launch`: the flags of another command look like its own.
bool misses_dashes(const std::vector<std::string>& arguments) {
  return !arguments.empty() && arguments.front() == "launch"
         && std::ranges::find(arguments, "--") == arguments.end();
}

int run(int argc, char** argv) {
  CLI::App app{"troupe: pipeline-parallel training by actors", "troupe"};
  app.require_subcommand(1);
  app.set_version_flag("--version", TROUPE_VERSION);
  troupe::cli::add_train_command(app);
  troupe::cli::add_plan_command(app);
  troupe::cli::add_verify_command(app);
  troupe::cli::add_simulate_command(app);
  troupe::cli::add_attach_command(app);
  troupe::cli::add_detach_command(app);
  troupe::cli::add_events_command(app);
  troupe::cli::add_top_command(app);
  troupe::cli::add_launch_command(app);
  troupe::cli::add_certificates_command(app);
  std::vector<std::string> arguments;
  try {
    arguments = arguments_of(argc, argv, app);
    require_known_command(arguments, app);
    auto reversed = arguments;
    std::ranges::reverse(reversed);
    app.parse(std::move(reversed));
    if (std::fflush(stdout) != 0 || std::ferror(stdout))
      troupe::fail(troupe::error_code::io, "standard output can't be written");
    return 0;
  } catch (const CLI::ParseError& reason) {
    if (app.exit(reason) == 0)
      return 0;
    if (misses_dashes(arguments))
      complain("",
               "what each process runs stands after --, as in troupe "
               "launch --processes 2 -- train ...",
               wrong_usage);
    return wrong_usage;
  }
}

}  // namespace

int main(int argc, char** argv) {
  spdlog::set_default_logger(spdlog::stderr_color_mt("troupe"));
  spdlog::set_pattern("troupe: %^%l%$: %v");
  try {
    return run(argc, argv);
  } catch (const troupe::cli::told_failure& reason) {
    return reason.exit_code();
  } catch (const troupe::cli::stopped_by_signal& reason) {
    return complain("", reason.what(), reason.exit_code());
  } catch (const troupe::error& reason) {
    return complain("error: ", reason.what(), troupe::exit_code(reason.code()));
  } catch (const c10::Error& reason) {
    return complain("error: ", reason.what_without_backtrace(), 1);
  } catch (const std::exception& reason) {
    return complain("error: ", reason.what(), 1);
  }
}
