// `troupe-runtime`: the commands that need LibTorch. `troupe` executes it.
#include <spdlog/sinks/stdout_color_sinks.h>

#include <CLI/CLI.hpp>

#include <array>
#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/log_listener.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/commands.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace {

using namespace troupe::cli;

/// Expands configuration files and monitors' settings.
argument_list expanded(const argument_list& arguments, CLI::App& app) {
  if (arguments.empty())
    return arguments;
  argument_list rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "train")
    rest = expand_config(std::move(rest), *app.get_subcommand("train"));
  if (arguments.front() == "attach")
    rest = fold_settings(std::move(rest));
  rest.insert(rest.begin(), arguments.front());
  return rest;
}

int run(const argument_list& arguments) {
  const auto app = make_app();
  // In the order of `runtime_commands`.
  const std::array add{
    add_train_command,        add_generate_command, add_attach_command,
    add_detach_command,       add_events_command,   add_top_command,
    add_replan_command,       add_launch_command,   add_checkpoint_command,
    add_certificates_command, add_lab_command};
  static_assert(add.size() == runtime_commands.size());
  for (std::size_t i = 0; i < add.size(); ++i)
    add[i](app->add_subcommand(std::string{runtime_commands[i].name},
                               std::string{runtime_commands[i].summary}));
  require_values(*app);
  return run_command(*app, expanded(arguments, *app));
}

/// Handles errors that have an exit code or a text of their own.
int run_told(const std::function<int()>& work) {
  try {
    return work();
  } catch (const process_end& reason) {
    const std::string text = reason.what();
    return text.empty() ? reason.exit_code()
                        : complain("", text.c_str(), reason.exit_code());
  } catch (const troupe::error&) {
    throw;
  } catch (const std::filesystem::filesystem_error&) {
    throw;
  } catch (...) {
    return complain("error: ", troupe::thrown_text().c_str(), 1);
  }
}

int report_all_errors(const std::function<int()>& work) {
  return report_errors([&] { return run_told(work); });
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process(report_all_errors);
  return report_all_errors([&] {
    open_log();
    add_listening_sink();
    return run(argument_list(argv + 1, argv + argc));
  });
}
