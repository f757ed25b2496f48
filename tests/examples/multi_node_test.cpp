#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>

#include "../cli/background_program.hpp"
#include "../cli/troupe_program.hpp"
#include "../files.hpp"
#include "../free_address.hpp"
#include "../temporary_folder.hpp"

using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const std::string program = TROUPE_PROGRAM;
const std::string demos = TROUPE_SOURCE_DIR "/examples/multi_node/";

std::string training(const temporary_folder& in, int steps = 4) {
  return " train --text " + write_text(in)
         + " --d-model 16 --layers 4 --heads 2 --seq 8 --microbatch-size 2"
           " --microbatches 4 --ranks 2 --endpoint none --steps "
         + std::to_string(steps);
}

std::string plain_bits(const temporary_folder& in) {
  const auto path = in / "plain";
  const auto run =
    run_program(program + training(in) + " --plain --save-parameters " + path);
  INFO(run.output);
  REQUIRE(run.exit_code == 0);
  return content(path);
}

}  // namespace

TEST_CASE("two processes with a relay between them train the same bits") {
  if (run_program("python3 --version").exit_code != 0)
    SKIP("needs python3");
  const temporary_folder folder;
  const auto plain = plain_bits(folder);
  const auto meets = free_address(), to_meeting = free_address();
  const auto first = free_address(), to_first = free_address();
  const auto second = free_address(), to_second = free_address();
  const background_program relay(demos + "relay.py --delay 5 --forward "
                                   + to_meeting + "=" + meets + " --forward "
                                   + to_first + "=" + first + " --forward "
                                   + to_second + "=" + second,
                                 folder / "relay");
  REQUIRE(relay.writes("listens"));
  folder.write("token", "a-secret-of-the-tests");
  const auto process = [&](int rank, const std::string& meeting,
                           const std::string& listen,
                           const std::string& announced) {
    return "WORLD_SIZE=2 LOCAL_WORLD_SIZE=1 RANK=" + std::to_string(rank) + " "
           + program + training(folder) + " --rendezvous " + meeting
           + " --listen " + listen + " --announce " + announced
           + " --job-token-file " + (folder / "token") + " --save-parameters "
           + (folder / "job") + " --log-json " + (folder / "log");
  };
  const auto begin = std::chrono::steady_clock::now();
  // The relay starts before process 0.
  const auto run = run_program(
    "chmod 600 " + (folder / "token") + "; ( "
    + process(1, to_meeting, second, to_second) + " & sleep 0.3; "
    + process(0, meets, first, to_first) + "; code=$?; wait; exit $code )");
  const auto took = std::chrono::steady_clock::now() - begin;
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK((content(folder / "job") == plain));
  // Each step has two round trips.
  CHECK(took > std::chrono::milliseconds(4 * 20));
}

namespace {

/// Trains on hosts in network namespaces, joined as the flags say; skips the
/// test if this machine does not support them.
program_result run_on_hosts(const std::string& flags,
                            const std::string& train) {
  auto run = run_program(demos + "run --troupe " + program + " " + flags + " --"
                         + train);
  if (run.output.starts_with("run: needs ")
      || run.output.find("gives no network namespaces") != std::string::npos)
    SKIP(run.output);
  return run;
}

/// The same, compared with the plain loop.
void compare_on_hosts(const std::string& flags, const std::string& shape) {
  const temporary_folder folder;
  const auto job = folder / "job";
  const auto run =
    run_on_hosts(flags, training(folder) + shape + " --save-parameters " + job);
  INFO(flags << shape << "\n" << run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, ContainsSubstring("[host 0] step 4/4"));
  CHECK((content(job) == plain_bits(folder)));
}

}  // namespace

TEST_CASE("hosts of namespaces with loss and delay train the same bits") {
  compare_on_hosts("--rate 1gbit --loss 1% --delay 2ms", "");
}

TEST_CASE(
  "hosts that lose packets, or are far, train the same bits by every "
  "schedule",
  "[.full]") {
  for (const std::string between : {"--loss 1%", "--delay 20ms"})
    for (const std::string shape :
         {"gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b --stages-per-rank 2",
          "breadth_first --stages-per-rank 2",
          "depth_first --breadth 2 --stages-per-rank 2"})
      compare_on_hosts(between, " --schedule " + shape);
}

// It matters whether something was in flight just then.
TEST_CASE("a cut cable ends all, whenever it is cut", "[.full]") {
  const temporary_folder folder;
  for (const std::string step : {"1", "5", "20", "50"}) {
    const auto run = run_on_hosts("--cut " + step, training(folder, 1'000'000));
    INFO(run.output);
    CHECK(run.exit_code == 1);
    for (const std::string gone :
         {"[host 0] troupe: error: process 1 (rank 1) is gone: its machine has "
          "not responded",
          "[host 1] troupe: error: process 0 (rank 0) is gone: its machine has "
          "not responded"})
      CHECK_THAT(run.output, ContainsSubstring(gone));
  }
}

TEST_CASE("the demo of several hosts says what it needs") {
  const auto help = run_program(demos + "run --help");
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.output, ContainsSubstring("Needs root"));
  CHECK(run_program(demos + "run --hosts 2").exit_code == 1);
  CHECK(run_program(demos + "relay.py --help").exit_code == 0);
}
