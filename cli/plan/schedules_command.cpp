#include "troupe/cli/plan/commands.hpp"

#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>

#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

void add_schedules_command(CLI::App& app) {
  auto* command =
    app.add_subcommand("schedules", "list the built-in schedules");
  const auto as_json = std::make_shared<bool>(false);
  command->add_flag("--json", *as_json, "schedule, summary, accepts");
  command->callback([as_json] {
    if (!*as_json)
      return write_output("", list_schedules());
    auto all = nlohmann::ordered_json::array();
    for (const auto& row : builtin_schedules())
      all.push_back({{"schedule", row.name},
                     {"summary", row.summary},
                     {"accepts", row.accepts}});
    all.push_back({{"schedule", search_name},
                   {"summary", search_summary},
                   {"accepts", search_accepts}});
    write_output("", all.dump(2) + '\n');
  });
}

}  // namespace troupe::cli
