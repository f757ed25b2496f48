// What a person sees who trains in a terminal.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "pseudo_terminal.hpp"
#include "tiny_training.hpp"
#include "troupe_paths.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

/// The columns of the longest text between two returns or line ends, without
/// escape sequences.
std::size_t longest_row(const std::string& output) {
  std::size_t longest = 0, columns = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    if (output[i] == '\r' || output[i] == '\n')
      columns = 0;
    else if (output[i] == '\033')
      i = output.find_first_of("mKJH", i);
    else if ((output[i] & 0xC0) != 0x80)
      longest = std::max(longest, ++columns);
  }
  return longest;
}

std::string training_part(const std::string& output) {
  return output.substr(0, output.find("trained steps "));
}

}  // namespace

TEST_CASE("a terminal shows one line of progress, fitted to its width") {
  const tiny_training at;
  for (const int columns : {40, 80, 200}) {
    for (const auto* how : {"--ranks 2 --endpoint none", "--plain"}) {
      INFO(columns << how);
      const auto run = run_on_terminal(
        at.command(std::string{how}
                   + " --log-level warn --validation-microbatches 1"),
        columns, 24);
      CHECK(run.exit_code == 0);
      CHECK_THAT(run.output, ContainsSubstring("step 1/3 loss ")
                               && ContainsSubstring("step 3/3 loss "));
      if (columns >= 80 && std::string_view{how}.starts_with("--ranks"))
        CHECK_THAT(run.output, ContainsSubstring(" % (plan "));
      CHECK_THAT(run.output, ContainsSubstring("model: gpt, "));
      CHECK_THAT(
        run.output,
        ContainsSubstring("step: 64 tokens, 4 microbatches of 2 x 8; 3 steps"));
      CHECK_THAT(run.output, ContainsSubstring("trained steps 1 to 3 in 0:0"));
      // Each step redraws the line of the one before.
      const auto lines = training_part(run.output);
      const auto first = lines.find("step 1/3"), last = lines.find("step 3/3");
      REQUIRE(last != lines.npos);
      CHECK(std::count(lines.begin() + static_cast<long>(first),
                       lines.begin() + static_cast<long>(last), '\n')
            == 0);
    }
  }
}

TEST_CASE("no row of progress is wider than the terminal") {
  const tiny_training at;
  const auto run =
    run_on_terminal(at.command("--plain --log-level warn --steps 4"), 60, 24);
  const auto from = run.output.find("step 1/4");
  REQUIRE(from != run.output.npos);
  const auto row = run.output.substr(from, run.output.find("step 4/4") - from);
  CHECK(longest_row(row) < 60);
  CHECK_THAT(row, ContainsSubstring("ETA "));
}

TEST_CASE("a sample that is too long is said before the first step") {
  const tiny_training at;
  const auto run = at.train("--plain --sample 20");
  CHECK(run.exit_code == 0);
  const auto warned =
    run.output.find("--sample 20: the sample will end after 5 tokens");
  REQUIRE(warned != run.output.npos);
  CHECK(warned < run.output.find("step 1/3"));
}

TEST_CASE("the written files are listed at the end, on a terminal alone") {
  const tiny_training at;
  const auto file = at.folder / "trained";
  const auto command = at.command("--plain --save-parameters " + file);
  const auto line = "written: " + file + " (--save-parameters)";
  CHECK_THAT(run_on_terminal(command, 80, 24).output, ContainsSubstring(line));
  CHECK_THAT(run_program(command).output,
             !ContainsSubstring(line) && !ContainsSubstring("trained steps"));
}

TEST_CASE("NO_COLOR turns colours off") {
  const auto output_with = [](const std::string& variable) {
    return run_on_terminal(
             variable + "'" TROUPE_PROGRAM "' plan --ranks 2 --microbatches 2",
             80, 24)
      .output;
  };
  CHECK_THAT(output_with(""), ContainsSubstring("\033["));
  CHECK_THAT(output_with("NO_COLOR= "), ContainsSubstring("\033["));
  CHECK_THAT(output_with("NO_COLOR=1 "), !ContainsSubstring("\033["));
}
