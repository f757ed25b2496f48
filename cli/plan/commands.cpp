#include "troupe/cli/plan/commands.hpp"

namespace troupe::cli {

void add_plan_commands(CLI::App& app) {
  add_plan_command(app);
  add_verify_command(app);
  add_simulate_command(app);
  add_schedules_command(app);
  add_compare_command(app);
  add_search_command(app);
  add_env_command(app);
}

}  // namespace troupe::cli
