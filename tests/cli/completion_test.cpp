#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "../files.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/reference/completion.hpp"
#include "troupe/cli/reference/manual.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace troupe::cli;
using namespace troupe::testing;

namespace {

bool has_program(const std::string& name) {
  return run_program("command -v " + name).exit_code == 0;
}

/// The script of a shell, as a file.
struct script_file : temporary_folder {
  explicit script_file(const std::string& shell)
    : path(*this / ("troupe." + shell)) {
    const auto run = run_troupe("completion", shell, "> " + path);
    CAPTURE(run.output);
    REQUIRE(run.exit_code == 0);
  }
  std::string path;
};

/// What bash offers for the last of the words, joined by spaces.
std::string offered(const script_file& script, const std::string& words) {
  const auto run = run_program(fmt::format(
    "bash --noprofile --norc -c 'source {} && COMP_WORDS=(troupe {}) && "
    "COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) && _troupe && "
    "echo \"${{COMPREPLY[*]}}\"'",
    script.path, words));
  CHECK(run.exit_code == 0);
  return run.output.substr(0, run.output.find('\n'));
}

}  // namespace

TEST_CASE("bash completes commands, flags and their words") {
  const script_file script("bash");
  for (const auto& [words, completion] :
       {std::pair{"tra", "train"},
        {"checkpoint ins", "inspect"},
        {"help gen", "generate"},
        {"completion f", "fish"},
        {"train --sched", "--schedule"},
        {"train --schedule 1f", "1f1b"},
        {"train --schedule = 1f", "1f1b"},
        {"train --steps 3 --optimizer mu", "muon"},
        {"train --monitor over", "overflow"},
        {"train --sink tens", "tensorboard"},
        {"train --model u_", "u_net"},
        {"train --help-a", "--help-all"},
        {"attach stab", "stability"},
        {"plan --schedule zb_h", "zb_h1 zb_h2"},
        {"plan --format sv", "svg"},
        {"checkpoint split --par", "--parts"},
        {"launch -- train --epo", "--epochs"},
        {"train --ranks \"\"", ""},
        {"simulate --no-such", ""}}) {
    CAPTURE(words);
    CHECK(offered(script, words) == completion);
  }
}

TEST_CASE("bash completes files where a flag takes one") {
  const script_file script("bash");
  const auto book = script.write("book.txt", "");
  const auto begin = book.substr(0, book.size() - 6);
  for (const auto* words : {"train --text ", "train --schedule ",
                            "generate --checkpoint ", "verify ", "top "})
    CHECK(offered(script, words + begin)
          == (words == std::string("top ") ? "" : book));
}

TEST_CASE("bash, zsh and fish accept their scripts") {
  for (const auto& [shell, command] : {std::pair{"bash", "bash -n "},
                                       {"zsh", "zsh -n "},
                                       {"fish", "fish --no-execute "}}) {
    const script_file script(shell);
    const auto text = content(script.path);
    for (const auto* word : {"gpipe", "overflow", "muon", "consolidate"}) {
      CAPTURE(shell, word);
      CHECK_THAT(text, ContainsSubstring(word));
    }
    if (!has_program(shell))
      continue;
    const auto run = run_program(command + script.path);
    CAPTURE(shell, run.output);
    CHECK(run.exit_code == 0);
    CHECK(run.output.empty());
  }
  CHECK(run_troupe("completion", "tcsh").exit_code == 2);
}

TEST_CASE("zsh's function knows each command's flags") {
  if (!has_program("zsh"))
    SKIP("zsh is not installed");
  const script_file script("zsh");
  const auto run = run_program(fmt::format(
    "zsh -f -c 'compdef() {{ : }}; _arguments() {{ print -l -- \"$@\" }}; "
    "words=(train); source {}; _troupe_train'",
    script.path));
  CAPTURE(run.output);
  CHECK_THAT(run.output,
             ContainsSubstring("--steps=[optimizer updates]:value: ")
               && ContainsSubstring("(adamw sgd lion adafactor muon)"));
}

TEST_CASE("fish offers words and flags") {
  if (!has_program("fish"))
    SKIP("fish is not installed");
  const script_file script("fish");
  const auto run = run_program(fmt::format(
    "HOME={0} fish --no-config -c 'source {1}; complete -C "
    "\"troupe train --optimizer mu\"; complete -C \"troupe train --sched\"'",
    script / "", script.path));
  CAPTURE(run.output);
  CHECK_THAT(run.output,
             ContainsSubstring("muon") && ContainsSubstring("--schedule"));
}

TEST_CASE("the manual page explains each flag that is not hidden") {
  const auto page = run_troupe("help --man", "");
  CHECK(page.exit_code == 0);
  CHECK_THAT(page.output, StartsWith(".TH TROUPE 1"));
  for (const auto* flag : {"\\-\\-schedule", "\\-\\-lora\\-rank",
                           "\\-\\-prompts", "\\-\\-token\\-file"})
    CHECK_THAT(page.output, ContainsSubstring(flag));
  const auto app = make_app();
  auto* command = app->add_subcommand("x", "an example");
  bool flag = false;
  command->add_flag("--shown", flag, "'quoted' \\ and\n.indented");
  command->add_flag("--hidden", flag, "")->group("");
  const auto text = manual_page(*app);
  CHECK_THAT(text, ContainsSubstring("\\fB\\-\\-shown\\fR")
                     && ContainsSubstring("\\&'quoted' \\e and")
                     && ContainsSubstring("\n\\&.indented")
                     && !ContainsSubstring("hidden"));
  CHECK_THAT(completion_script("bash", *app, {}),
             ContainsSubstring("--shown") && !ContainsSubstring("--hidden"));
}

TEST_CASE("groff formats the manual page without a warning") {
  if (!has_program("groff"))
    SKIP("groff is not installed");
  const auto run = run_program("( " TROUPE_PROGRAM
                               " help --man | groff -man -ww -Tutf8 > "
                               "/dev/null )");
  CHECK(run.exit_code == 0);
  CHECK(run.output == "");
}
