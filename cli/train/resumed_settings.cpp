#include "troupe/cli/train/resumed_settings.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "troupe/cli/config_file.hpp"
#include "troupe/cli/plan/help.hpp"

namespace troupe::cli {

setting_texts flags_of_updates(const CLI::App& command) {
  constexpr std::array<std::string_view, 7> others{
    "microbatches", "microbatch-size", "data-parallel", "schedule",
    "threads",      "dropout",         "lora-dropout"};
  setting_texts flags;
  for (auto& [name, value] : flag_values(command)) {
    const auto* option = command.get_option_no_throw("--" + name);
    const bool is_kept = option != nullptr && name != "steps"
                         && name != "epochs"
                         && (section_of(*option) == "optimisation"
                             || std::ranges::count(others, name) > 0);
    if (is_kept)
      flags.emplace(name, std::move(value));
  }
  return flags;
}

}  // namespace troupe::cli
