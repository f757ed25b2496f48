#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <tuple>

#include "../files.hpp"
#include "background_program.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

TEST_CASE("a NaN halts the run when asked") {
  const tiny_training at;
  const auto run =
    at.train("--optimizer sgd --lr 1e30 --steps 20 --halt-on-nan");
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring(", rank 1, op 1F")
                           && ContainsSubstring("the loss 'loss' is "));
  const auto plain =
    at.train("--plain --optimizer sgd --lr 1e30 --steps 20 --halt-on-nan");
  INFO(plain.output);
  CHECK(plain.exit_code == 1);
  CHECK_THAT(plain.output, ContainsSubstring(": the loss is ")
                             && ContainsSubstring("; lower --lr")
                             && !ContainsSubstring("the run continues"));
}

TEST_CASE("signals end a run with a step, and save what is asked for") {
  for (const auto& [signal, name, code, plain] :
       {std::tuple{"INT", "SIGINT", 130, ""},
        {"TERM", "SIGTERM", 143, ""},
        {"HUP", "SIGHUP", 129, ""},
        {"INT", "SIGINT", 130, "--plain "}}) {
    const tiny_training at;
    const auto saved = at.folder / "saved", again = at.folder / "again";
    // The shell waits for the first step's line, then signals its child.
    const auto run = run_program(
      "mkfifo " + (at.folder / "out") + "; env --default-signal=HUP "
      + at.command(plain) + "--steps 1000000 --save-parameters " + saved + " >"
      + (at.folder / "out") + " 2>" + (at.folder / "err")
      + " & child=$!; exec 3<" + (at.folder / "out") + "; read line <&3; kill -"
      + signal + " $child; cat <&3 >/dev/null; wait $child; code=$?; cat "
      + (at.folder / "err") + "; exit $code");
    INFO(run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output,
               ContainsSubstring(name)
                 && ContainsSubstring("; its parameters are saved in "));
    const std::string before = " after step ";
    const auto step = run.output.rfind(before);
    REQUIRE(step != std::string::npos);
    const auto count = std::stoi(run.output.substr(step + before.size()));
    CHECK(at.train("--steps " + std::to_string(count) + " --save-parameters "
                   + again)
            .exit_code
          == 0);
    CHECK(content(saved) == content(again));
  }
}

TEST_CASE("a signal ends a long validation") {
  const temporary_folder folder;
  const auto text = write_text(folder, std::string(16'000, 'a'));  // 8 MB
  for (const std::string plain : {"", " --plain"}) {
    background_program run(
      program + " train --text " + text + tiny
        + "--steps 1 --validation-fraction 0.9 --endpoint none"
          " --validation-microbatches 1000000"
        + plain,
      folder / ("output" + plain));
    REQUIRE(run.writes("step 1/1 "));
    CHECK(run.end(SIGTERM) == 128 + SIGTERM);
    CHECK_THAT(run.output(), !ContainsSubstring("validation at"));
  }
}

TEST_CASE("an ignored signal, as under nohup, does not end a run") {
  const tiny_training at;
  const auto run = run_program(
    "trap '' HUP; " + at.command("--steps 20")
    + " & child=$!; for i in 1 2 3 4 5 6 7 8 9; do kill -HUP $child; "
      "done; wait $child");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("step 20/20 "));
}

TEST_CASE("a non-finite loss is reported at once and at the end") {
  const tiny_training at;
  for (const auto* plain : {"", "--plain "}) {
    const auto run = at.train(std::string(plain)
                              + "--optimizer sgd --lr 1e30 --steps 6 "
                                "--save-parameters "
                              + (at.folder / "saved"));
    INFO(run.output);
    CHECK(run.exit_code == 1);
    CHECK_THAT(run.output,
               ContainsSubstring("the trained parameters are not finite"));
    const auto warning = run.output.find("; the run continues; --halt-on-nan");
    const auto last = run.output.find("the loss was not finite in ");
    REQUIRE(warning != std::string::npos);
    CHECK(run.output.find("; the run continues", warning + 1)
          == std::string::npos);
    REQUIRE(last != std::string::npos);
    CHECK(warning < last);
    const auto first = run.output.find("first in step ", last);
    CHECK(run.output.find("step " + run.output.substr(first + 14, 1)
                          + ": the loss is")
          != std::string::npos);
  }
  CHECK(at.train("").output.find("finite") == std::string::npos);
}

/// Limits by the shell, as a user sets them. 127: not even the libraries fit.
TEST_CASE("too little address space ends a run with an error") {
#ifdef __SANITIZE_ADDRESS__
  SKIP("the address sanitizer reserves terabytes of it");
#endif
  const tiny_training at;
  for (const int mebibytes : {300, 500, 700, 800, 900, 1000, 1200, 1500}) {
    const auto run =
      run_program("ulimit -c 0; ulimit -v " + std::to_string(mebibytes * 1024)
                  + "; timeout 20 " + at.command("--ranks 4"));
    CAPTURE(mebibytes, run.output);
    CHECK((run.exit_code == 0 || run.exit_code == 1 || run.exit_code == 127));
  }
}

/// Root is exempt from the limit, so root runs the program as a user that has
/// no other process, with the right to read files that root's folders hide.
TEST_CASE("too few processes end a run with an error") {
  if (::geteuid() != 0
      || run_program("command -v setpriv prlimit").exit_code != 0)
    SKIP("setpriv of root is needed");
  const tiny_training at;
  const auto user = std::to_string(100'000 + ::getpid() % 100'000);
  for (const int threads : {1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32}) {
    const auto run = run_program(
      "HOME=/nonexistent timeout 20 setpriv --reuid " + user
      + " --clear-groups --inh-caps=+dac_override --ambient-caps=+dac_override"
        " prlimit --core=0 --nproc="
      + std::to_string(threads) + " " + at.command("--ranks 4"));
    CAPTURE(threads, run.output);
    CHECK((run.exit_code == 0 || run.exit_code == 1));
  }
}
