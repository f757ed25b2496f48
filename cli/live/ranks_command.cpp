#include <CLI/CLI.hpp>

#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

namespace {

constexpr auto ranks_help = R"(
A job's ranks are numbered from 0 on: those of the first replica, then those of
the second, and so on. `troupe move` and `troupe drain` let other processes host
them.

Example:
  troupe ranks
  troupe ranks unix:/tmp/x.sock --json

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

constexpr auto move_help = R"(
The rank's parameters and optimizer state go to the process between two steps,
and the job goes on with the same bits. `troupe ranks` shows who hosts what.

Example:
  troupe move 3 0
  troupe move unix:/tmp/x.sock 3 0

Without an endpoint, your only job on this machine that listens at its default
endpoint is meant.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

constexpr auto drain_help = R"(
Each rank of the process goes to the process that hosts fewest, between two
steps, and the job goes on with the same bits. The process stays in the job
without a rank, and ranks can move back to it.

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
};

std::int32_t number_in(const std::string& word, const char* what) {
  const auto number = parse_number<std::int32_t>(word);
  if (!number || *number < 0)
    fail(error_code::invalid_argument, "{} is {}; use a number from 0 on", what,
         printable(word));
  return *number;
}

/// A line for each process: the ranks that it hosts.
std::string table_of(const nlohmann::json& answer) {
  const auto hosting = field<std::vector<std::int32_t>>(answer, "hosting");
  const auto replicas = field<std::int32_t>(answer, "replicas");
  std::string text;
  if (answer.contains("epoch"))
    text = fmt::format("epoch {}\n", field<std::int64_t>(answer, "epoch"));
  text += "process  ranks\n";
  for (std::int32_t p = 0; p < field<std::int32_t>(answer, "processes"); ++p) {
    std::string ranks;
    for (std::size_t i = 0; i < hosting.size(); ++i)
      if (hosting[i] == p)
        ranks += fmt::format("{}{}", ranks.empty() ? "" : " ", i);
    text += fmt::format("{:<9}{}\n", p, ranks.empty() ? "none" : ranks);
  }
  if (replicas > 1)
    text += fmt::format("Replica d has the {} ranks from d x {} on.\n",
                        field<std::int32_t>(answer, "ranks"),
                        field<std::int32_t>(answer, "ranks"));
  return text;
}

/// Asks the job, and prints its ranks.
void ask(const ranks_options& options, const char* method,
         const nlohmann::json& request) {
  auto client = options.job.connect();
  run_until_signal(client, [&] {
    const auto answer = client.request(method, "/ranks", request);
    print_now(options.json ? json_text(answer) + "\n" : table_of(answer));
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
