// `troupe`: makes, verifies and simulates plans itself, which is quick as it
// does not load LibTorch. For everything else it executes `troupe-runtime`.
#include <signal.h>

#include <algorithm>

#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>
#include "troupe/cli/plan/build_facts.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/help.hpp"
#include "troupe/cli/plan/program.hpp"

namespace {

using namespace troupe::cli;

/// The manual page describes all commands, also those of the runtime.
bool needs_runtime(const argument_list& arguments) {
  return arguments == argument_list{"help", "--man"}
         || (!arguments.empty()
             && std::ranges::find(runtime_commands, arguments.front(),
                                  &runtime_command::name)
                  != runtime_commands.end());
}

/// Blocks SIGUSR1 and SIGUSR2, so that a notice that arrives while LibTorch is
/// loaded, or before `launch` has started its processes, stays pending for the
/// program.
void hold_notices(const argument_list& arguments) {
  if (arguments.front() != "train" && arguments.front() != "launch")
    return;
  sigset_t notices;
  ::sigemptyset(&notices);
  ::sigaddset(&notices, SIGUSR1);
  ::sigaddset(&notices, SIGUSR2);
  ::sigprocmask(SIG_BLOCK, &notices, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  prepare_process(report_errors);
  return report_errors([&] {
    const auto arguments = without_words(argument_list(argv + 1, argv + argc));
    if (arguments == argument_list{"--cmake-dir"}) {
      print_now(cmake_folder() + '\n');
      return 0;
    }
    if (needs_runtime(arguments)) {
      hold_notices(arguments);
      become_runtime(arguments);
    }
    open_log();
    const auto app = make_app();
    add_plan_commands(*app);
    for (const auto& [name, summary] : runtime_commands)
      app->add_subcommand(std::string{name}, std::string{summary});
    for (const auto& [name, summary] : word_commands)
      app->add_subcommand(std::string{name}, std::string{summary});
    require_values(*app);
    return run_command(*app, arguments);
  });
}
