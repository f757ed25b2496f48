#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "../files.hpp"
#include "troupe_program.hpp"

using namespace troupe::testing;

namespace {

/// The commands in README.md's blocks for shells, each on one line.
std::vector<std::string> readme_commands() {
  std::istringstream lines(content(TROUPE_SOURCE_DIR "/README.md"));
  std::vector<std::string> commands;
  bool in_block = false, continues = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      in_block = line == "```sh";
      continue;
    }
    if (!in_block)
      continue;
    line.resize(std::min(line.find(" #"), line.size()));
    const bool goes_on = line.ends_with('\\');
    if (goes_on)
      line.pop_back();
    if (continues)
      commands.back() += line;
    else
      commands.push_back(line);
    continues = goes_on;
  }
  return commands;
}

}  // namespace

TEST_CASE("the README's commands can be pasted") {
  const temporary_folder folder;
  const auto prefix = "cd " + (folder / "") + " && book=" + write_text(folder)
                      + " && troupe() { " TROUPE_PROGRAM " \"$@\"; } && ";
  int trainings = 0, others = 0;
  for (const auto& command : readme_commands()) {
    const auto begins = [&](const std::string& with) {
      return command.starts_with("troupe " + with + ' ');
    };
    const bool trains =
      begins("train") && command.find("--model") == command.npos;
    const bool plans = begins("plan") || begins("compare") || begins("search")
                       || begins("verify") || begins("simulate");
    if (!trains && !plans)
      continue;
    ++(trains ? trainings : others);
    const auto run = run_program("( " + prefix + command
                                 + (trains ? " --print-config" : "") + " )");
    CAPTURE(command, run.output);
    CHECK(run.exit_code == 0);
  }
  CHECK(trainings >= 6);
  CHECK(others >= 5);
}
