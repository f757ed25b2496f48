#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/plan/schedule_options.hpp"
#include "troupe/engine/plan/cost/entries.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::cli {

namespace {

constexpr auto replan_help = R"(
The job uses the new order from its next step on, with the same stages on
the same ranks and the same microbatches: the parameters get the same bits.
The job tries the order for some steps, for at most 40 s, and keeps it if they
are faster by 2 %; with --force it keeps it in any case.

Example:
  troupe replan --schedule zb_h1 --force
  troupe replan unix:/tmp/x.sock --search
  troupe replan --search --sizes kept=4e6,activation=1e6 --memory-limit 6e7

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct replan_options {
  live_options job;
  std::string schedule;
  bool search = false;
  bool force = false;
  std::string sizes;
  double memory_limit = 0;
  bool json = false;
};

nlohmann::json request_of(replan_options options) {
  if (options.schedule == search_name) {
    options.schedule.clear();
    options.search = true;
  }
  if (options.search && options.force)
    throw error(error_code::invalid_argument, "--force requires --schedule");
  if (options.search == !options.schedule.empty())
    throw error(error_code::invalid_argument,
                "give either --schedule or --search");
  if (!options.search && (!options.sizes.empty() || options.memory_limit > 0))
    throw error(error_code::invalid_argument,
                "--sizes and --memory-limit bound a search; omit them with "
                "--schedule");
  auto request = nlohmann::json::object();
  if (options.search) {
    request["search"] = true;
    if (!options.sizes.empty()) {
      load_sizes(options.sizes);  // refuses unreadable sizes
      request["sizes"] = find_entries(options.sizes, "sizes").text;
    }
    if (options.memory_limit > 0)
      request["memory_limit"] = options.memory_limit;
  } else if (names_file(options.schedule)) {
    request["text"] = read_file(options.schedule);
    constexpr std::size_t most = std::size_t{60} << 10;
    if (field<std::string>(request, "text").size() > most)
      fail(error_code::invalid_argument,
           "{} is too large for the endpoint, which accepts {} bytes",
           printable(options.schedule), most);
    request["source"] = printable(options.schedule);
  } else {
    request["schedule"] = options.schedule;
  }
  if (options.force)
    request["force"] = true;
  return request;
}

std::string to_sentence(const nlohmann::json& answer) {
  const auto name = printable(field<std::string>(answer, "schedule"));
  if (field<bool>(answer, "same"))
    return fmt::format("the job already runs the order of {}\n", name);
  const auto& now = field_of(answer, "now");
  const auto& then = field_of(answer, "then");
  const auto times =
    now.is_number() && then.is_number() ? fmt::format(
      " ({:.4g} ms per step, +-{:.1f} %, {}; {:.4g} before)",
      then.get<double>(), 100 * field<double>(answer, "uncertainty"),
      field<int>(answer, "trial_steps") > 0 ? "measured" : "predicted",
      now.get<double>())
                                        : std::string{};
  if (field<bool>(answer, "taken"))
    return fmt::format("the job switches to {}{}\n", name, times);
  return fmt::format(
    "{} is not at least 2 % faster{}: the job keeps its order\n", name, times);
}

void run(const replan_options& options) {
  const auto request = request_of(options);
  constexpr double search_seconds = 300;
  auto client = options.job.connect(search_seconds);
  run_until_signal(client, [&] {
    const auto answer = client.request("POST", "/replan", request);
    print_now(options.json ? json_text(answer) + "\n" : to_sentence(answer));
  });
}

}  // namespace

void add_replan_command(CLI::App* command) {
  const auto options = std::make_shared<replan_options>();
  options->job.add_to(*command);
  add_value(*command, "--schedule NAME|FILE", options->schedule,
            "a built-in schedule, or a file: CSV or the text form");
  command->add_flag("--search", options->search,
                    "search for the best order for the measured costs");
  command->add_flag("--force", options->force,
                    "take the schedule even if it is not better");
  add_value(*command, "--sizes ENTRIES|FILE", options->sizes,
            "bytes of a microbatch on a rank's layers, as for simulate");
  add_value(*command, "--memory-limit BYTES", options->memory_limit,
            "most bytes that a rank may hold, for --search", number(0));
  command->add_flag("--json", options->json, "the job's answer");
  command->footer(replan_help);
  command->callback([options] { run(*options); });
}

}  // namespace troupe::cli
