#include "troupe/cli/plan/help.hpp"

#include <CLI/CLI.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "troupe/cli/plan/program.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::cli;
using namespace troupe::testing;

namespace {

constexpr const char* commands[] = {"",
                                    "plan",
                                    "verify",
                                    "simulate",
                                    "schedules",
                                    "compare",
                                    "search",
                                    "train",
                                    "generate",
                                    "attach",
                                    "detach",
                                    "events",
                                    "top",
                                    "replan",
                                    "ranks",
                                    "move",
                                    "drain",
                                    "launch",
                                    "authority",
                                    "lab",
                                    "checkpoint",
                                    "certificates",
                                    "checkpoint inspect",
                                    "checkpoint split"};

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);)
    lines.push_back(line);
  return lines;
}

/// The flags that a help explains besides --help, sorted.
std::vector<std::string> flags_in(const std::string& help) {
  std::vector<std::string> flags;
  for (const auto& line : lines_of(help))
    if (line.starts_with("  -") && !line.starts_with("  -h"))
      flags.push_back(line.substr(2, line.find_first_of(" =", 2) - 2));
  std::ranges::sort(flags);
  return flags;
}

}  // namespace

TEST_CASE("the help of every command fits a screen") {
  for (const auto* command : commands) {
    CAPTURE(command);
    const auto help = run_troupe(command, "--help");
    CHECK(help.exit_code == 0);
    CHECK(run_troupe(command, "-h").output == help.output);
    const auto lines = lines_of(help.output);
    CHECK(lines.size() <= help_lines);
    for (const auto& line : lines) {
      CAPTURE(line);
      CHECK(line.size() <= help_columns);
    }
  }
}

TEST_CASE("usage lines show arguments by the names of their values") {
  for (const auto& [command, arguments] :
       {std::pair{"attach", "[ENDPOINT] SPEC..."},
        {"detach", "[ENDPOINT] [ID]"},
        {"verify", "[FILE]"},
        {"plan", "[NAME|FILE]"},
        {"top", "[ENDPOINT]"},
        {"launch", "COMMAND..."},
        {"completion", "SHELL"},
        {"checkpoint inspect", "PATH"}}) {
    CAPTURE(command);
    CHECK_THAT(run_troupe(command, "--help").output,
               ContainsSubstring(fmt::format("Usage: troupe {} [OPTIONS] {}\n",
                                             command, arguments)));
  }
}

TEST_CASE("each flag of a long help is in one of its sections") {
  for (const auto* command : {"train", "generate", "plan", "simulate"}) {
    CAPTURE(command);
    const auto brief = run_troupe(command, "--help").output;
    const auto all = flags_in(run_troupe(command, "--help-all").output);
    std::vector<std::string> in_sections;
    std::size_t sections = 0;
    for (const auto& line : lines_of(brief))
      if (line.starts_with("  --help=")) {
        const auto flag = line.substr(2, line.find(' ', 2) - 2);
        const auto section = run_troupe(command, flag);
        CHECK(section.exit_code == 0);
        const auto flags = flags_in(section.output);
        in_sections.insert(in_sections.end(), flags.begin(), flags.end());
        ++sections;
      }
    CHECK(sections >= 4);
    std::ranges::sort(in_sections);
    CHECK(in_sections == all);
  }
}

TEST_CASE("an unknown section of help is answered with the sections") {
  const auto unknown = run_troupe("train", "--help=dat");
  CHECK(unknown.exit_code == 2);
  CHECK_THAT(unknown.output,
             ContainsSubstring("the help of troupe train has no section 'dat'; "
                               "did you mean data? The sections are data, "
                               "model, schedule, replicas, devices"));
  const auto none = run_troupe("verify", "--help=data");
  CHECK(none.exit_code == 2);
  CHECK_THAT(none.output, ContainsSubstring("see troupe verify --help-all"));
}

TEST_CASE("help is given whatever else the command line says") {
  CHECK(run_troupe("train", "--config /absent --bogus --help").exit_code == 0);
  CHECK(run_troupe("attach", "overflow --match x --help-all").exit_code == 0);
  CHECK_THAT(run_troupe("launch", "-- frob --help").output,
             !ContainsSubstring("Usage"));
}

TEST_CASE("a group's title names its section and says what is in it") {
  const auto app = make_app();
  auto* command = app->add_subcommand("x", "an example");
  bool flag = false;
  command->add_flag("--alone", flag, "in CLI11's own group");
  command->add_flag("--a", flag, "")->group("Data: texts");
  command->add_flag("--b", flag, "")->group("Data: of another kind");
  command->add_flag("--hidden", flag, "")->group("");
  const auto sections = sections_of(*command);
  REQUIRE(sections.size() == 2);
  CHECK(sections[0].name == "options");
  CHECK(sections[0].summary == "--alone");
  CHECK(sections[1].name == "data");
  CHECK(sections[1].summary == "texts");
  const auto data = requested_help(*app, {"x", "--help=data"}).value();
  CHECK_THAT(data, ContainsSubstring("--a") && ContainsSubstring("--b")
                     && !ContainsSubstring("--alone"));
  CHECK_THAT(requested_help(*app, {"x", "--help-all"}).value(),
             !ContainsSubstring("--hidden"));
  CHECK_FALSE(requested_help(*app, {"x", "--", "--help"}));
}

TEST_CASE("long descriptions are wrapped, and columns in them stay aligned") {
  const auto app = make_app();
  auto* command = app->add_subcommand("x", "an example");
  std::string text;
  command->add_option(
    "--words", text,
    "a sentence that is so long that it does not fit into "
    "what is left of a line:\n"
    "  one   the first of two columns, the second of which is "
    "longer than the line");
  const std::string indent(30, ' ');
  CHECK_THAT(
    requested_help(*app, {"x", "--help-all"}).value(),
    ContainsSubstring("  --words TEXT                "
                      "a sentence that is so long that it does not fit\n"
                      + indent + "into what is left of a line:\n" + indent
                      + "  one   the first of two columns, the second of\n"
                      + indent + "        which is longer than the line\n"));
}
