// `troupe-runtime`: the commands that need LibTorch. `troupe` executes it for
// them.
#include <spdlog/sinks/stdout_color_sinks.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/log_listener.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/commands.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/reference/manual.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace {

using namespace troupe::cli;

/// Expands configuration files and monitors' settings.
argument_list expanded(const argument_list& arguments, CLI::App& app) {
  argument_list rest(arguments.begin() + 1, arguments.end());
  if (arguments.front() == "train")
    rest = expand_config(std::move(rest), *app.get_subcommand("train"));
  if (arguments.front() == "attach")
    rest = fold_settings(std::move(rest));
  rest.insert(rest.begin(), arguments.front());
  return rest;
}

using command_adder = void (*)(CLI::App* command);

constexpr std::array adders{
  std::pair{std::string_view{"train"}, &add_train_command},
  std::pair{std::string_view{"generate"}, &add_generate_command},
  std::pair{std::string_view{"attach"}, &add_attach_command},
  std::pair{std::string_view{"detach"}, &add_detach_command},
  std::pair{std::string_view{"events"}, &add_events_command},
  std::pair{std::string_view{"top"}, &add_top_command},
  std::pair{std::string_view{"replan"}, &add_replan_command},
  std::pair{std::string_view{"ranks"}, &add_ranks_command},
  std::pair{std::string_view{"move"}, &add_move_command},
  std::pair{std::string_view{"drain"}, &add_drain_command},
  std::pair{std::string_view{"launch"}, &add_launch_command},
  std::pair{std::string_view{"authority"}, &add_authority_command},
  std::pair{std::string_view{"checkpoint"}, &add_checkpoint_command},
  std::pair{std::string_view{"certificates"}, &add_certificates_command},
  std::pair{std::string_view{"lab"}, &add_lab_command},
  std::pair{std::string_view{"completion"}, &add_completion_command},
};

/// Null without such a command.
constexpr command_adder adder_of(std::string_view name) {
  for (const auto& [command, add] : adders)
    if (command == name)
      return add;
  return nullptr;
}

static_assert(std::ranges::all_of(runtime_commands,
                                  [](const auto& each) {
                                    return adder_of(each.name) != nullptr;
                                  })
                && adders.size() == runtime_commands.size(),
              "each command that `troupe` lists is one of troupe-runtime's");

/// Whether the arguments ask for a description of all commands.
bool describes_all(const argument_list& arguments) {
  return !arguments.empty()
         && (arguments.front() == "completion" || arguments.front() == "help");
}

int run(const argument_list& arguments) {
  const auto app = make_app();
  if (describes_all(arguments)) {
    add_plan_commands(*app);
    for (const auto& [name, summary] : word_commands)
      app->add_subcommand(std::string{name}, std::string{summary});
  }
  for (const auto& each : runtime_commands)
    adder_of(each.name)(
      app->add_subcommand(std::string{each.name}, std::string{each.summary}));
  require_values(*app);
  if (!arguments.empty() && arguments.front() == "help") {
    print_now(manual_page(*app));
    return 0;
  }
  return run_command(*app, arguments, [&](const argument_list& all) {
    return all.empty() ? all : expanded(all, *app);
  });
}

/// Reports errors that have an exit code or a text of their own.
int report_process_end(const std::function<int()>& work) {
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
  return report_errors([&] { return report_process_end(work); });
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
