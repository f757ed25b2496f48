#include <CLI/CLI.hpp>

#include <memory>
#include <string>

#include "troupe/cli/commands.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/cli/reference/completion.hpp"
#include "troupe/engine/models/registry.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

value_words words_of_values() {
  value_words words{{"--monitor", monitor_names()},
                    {"spec", monitor_names()},
                    {"--sink", sink_names()},
                    {"--device", {"cpu", "cuda"}},
                    {"--resume", {"auto"}},
                    {"--split", {"even", "parameters", "measured"}}};
  auto& schedules = words["--schedule"];
  for (const auto& row : builtin_schedules())
    schedules.emplace_back(row.name);
  schedules.emplace_back(search_name);
  for (const auto& entry : registered_models())
    words["--model"].push_back(entry.name);
  return words;
}

}  // namespace

void add_completion_command(CLI::App* command) {
  const auto shell = std::make_shared<std::string>();
  add_value(*command, "shell SHELL", *shell, "bash, zsh or fish",
            one_of({"bash", "zsh", "fish"}))
    ->required();
  command->footer(
    "Example:\n"
    "  source <(troupe completion bash)\n\n"
    "To keep it, save the output as\n"
    "  bash  ~/.local/share/bash-completion/completions/troupe\n"
    "  zsh   _troupe in a folder of $fpath\n"
    "  fish  ~/.config/fish/completions/troupe.fish");
  command->callback([command, shell] {
    print_now(
      completion_script(*shell, *command->get_parent(), words_of_values()));
  });
}

}  // namespace troupe::cli
