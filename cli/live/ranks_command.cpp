#include <CLI/CLI.hpp>

#include <spdlog/spdlog.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/live/ranks_table.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

namespace {

constexpr auto ranks_help = R"(
A job's ranks are numbered from 0 on: those of the first replica, then those of
the second, and so on. `troupe move` and `troupe drain` let other processes host
them. In a job that heals, the table also has the epoch, the last step, and of
each process its id, how long it has been in the job, and the share of the last
ten steps in which its ranks computed, on average.

Example:
  troupe ranks
  troupe ranks unix:/tmp/x.sock --json

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

constexpr auto move_help = R"(
The rank's parameters and optimizer state go to the process between two steps,
and the job goes on with the same bits. `troupe ranks` shows who hosts what. In
a job that heals, the command waits until the rank is there.

Example:
  troupe move 3 0
  troupe move unix:/tmp/x.sock 3 0

Without an endpoint, your only job on this machine that listens at its default
endpoint is meant.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

constexpr auto drain_help = R"(
Each rank of the process goes to the process that hosts fewest, between two
steps, and the job goes on with the same bits. The process stays in the job
without a rank, and ranks can move back to it. In a job that heals, the command
waits until they have moved.

Example:
  troupe drain 2
  troupe drain unix:/tmp/x.sock 2

Without an endpoint, your only job on this machine that listens at its default
endpoint is meant.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct ranks_options {
  live_options job;
  std::vector<std::string> words;  // the endpoint, if it is given, and numbers
  bool json = false;
  double patience = 30;  // seconds until ranks have moved
};

std::int32_t number_in(const std::string& word, const char* what) {
  const auto number = parse_number<std::int32_t>(word);
  if (!number || *number < 0)
    fail(error_code::invalid_argument, "{} is {}; use a number from 0 on", what,
         printable(word));
  return *number;
}

/// Waits until a job that heals has begun the epoch with the hosting that was
/// requested, or another one. Returns its ranks then.
nlohmann::json await_epoch(live_client& client, const nlohmann::json& before,
                           double patience) {
  constexpr std::chrono::milliseconds look_every{20};
  const auto requested = field_of(before, "requested");
  const auto epoch = field<std::int64_t>(before, "epoch");
  for (const deadline until(patience); until.milliseconds() > 0;) {
    auto now = client.request("GET", "/ranks");
    const bool is_next = field<std::int64_t>(now, "epoch") > epoch;
    if (is_next && field_of(now, "hosting") == requested)
      return now;
    if (is_next && process_ids(now) != process_ids(before)) {
      spdlog::warn(
        "processes were lost or have joined meanwhile, and the job may have "
        "another hosting than was requested");
      return now;
    }
    std::this_thread::sleep_for(look_every);
  }
  fail(error_code::transport,
       "the ranks have not moved within {} s, as the job is still in epoch {}; "
       "`troupe ranks` shows whether they do later",
       patience, epoch);
}

bool is_pending(const nlohmann::json& answer) {
  return answer.contains("requested")
         && answer["requested"] != field_of(answer, "hosting");
}

/// Asks the job, and prints its ranks.
void ask(const ranks_options& options, const char* method,
         const nlohmann::json& request) {
  auto client = options.job.connect();
  run_until_signal(client, [&] {
    auto answer = client.request(method, "/ranks", request);
    if (is_pending(answer))
      answer = await_epoch(client, answer, options.patience);
    answer.erase("requested");
    print_now(options.json ? json_text(answer) + "\n" : ranks_table(answer));
  });
}

std::shared_ptr<ranks_options> add_common(CLI::App& command, const char* help) {
  const auto options = std::make_shared<ranks_options>();
  command.add_flag("--json", options->json, "the job's answer");
  command.footer(help);
  return options;
}

/// A command whose words are the endpoint, if it is given, and numbers.
std::shared_ptr<ranks_options> add_with_numbers(CLI::App& command,
                                                const char* words,
                                                const char* meaning,
                                                const char* help) {
  const auto options = add_common(command, help);
  options->job.add_token_to(command);
  add_value(command, words, options->words, meaning)->required();
  add_value(command, "--wait", options->patience,
            "seconds to wait until the ranks have moved, in a job that heals",
            number_above(0, 1e6))
    ->capture_default_str();
  return options;
}

void require_words(const ranks_options& options, std::size_t count,
                   const char* usage) {
  if (options.words.size() != count)
    fail(error_code::invalid_argument, "use: troupe {}", usage);
}

}  // namespace

void add_ranks_command(CLI::App* command) {
  const auto options = add_common(*command, ranks_help);
  options->job.add_to(*command);
  command->callback([options] { ask(*options, "GET", nullptr); });
}

void add_move_command(CLI::App* command) {
  const auto options = add_with_numbers(
    *command, "words [ENDPOINT] RANK PROCESS",
    "the job's endpoint, unless there is one job; then the rank, and the "
    "process that will host it",
    move_help);
  command->callback([options] {
    options->job.take_endpoint(options->words);
    require_words(*options, 2, "move [ENDPOINT] RANK PROCESS");
    ask(*options, "POST",
        {{"rank", number_in(options->words[0], "RANK")},
         {"process", number_in(options->words[1], "PROCESS")}});
  });
}

void add_drain_command(CLI::App* command) {
  const auto options = add_with_numbers(
    *command, "words [ENDPOINT] PROCESS",
    "the job's endpoint, unless there is one job; then the process that will "
    "host no rank",
    drain_help);
  command->callback([options] {
    options->job.take_endpoint(options->words);
    require_words(*options, 1, "drain [ENDPOINT] PROCESS");
    ask(*options, "POST", {{"drain", number_in(options->words[0], "PROCESS")}});
  });
}

}  // namespace troupe::cli
