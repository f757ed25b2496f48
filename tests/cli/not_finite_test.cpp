// Checkpoints of a run that has diverged.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../files.hpp"
#include "tiny_training.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe::testing;

namespace {

const std::string diverge = " --optimizer sgd --lr 1e30 --steps 8 ";

/// Steps 2 and 4 are healthy, 6 and 8 are not.
struct diverged_run : tiny_training {
  std::string run = folder / "run";
  std::string flags = "--endpoint none --optimizer sgd --checkpoints " + run
                      + " --checkpoint-every 2 ";

  diverged_run() {
    CHECK(train(flags + "--steps 4").exit_code == 0);
    bad = train(flags + diverge + "--resume auto");
  }
  bool has(const char* name) const {
    return std::filesystem::exists(run + "/" + name);
  }

  program_result bad;
};

}  // namespace

TEST_CASE("a run that diverges keeps its last finite checkpoint and fails") {
  const diverged_run at;
  INFO(at.bad.output);
  CHECK(at.bad.exit_code == 1);
  CHECK_THAT(at.bad.output,
             ContainsSubstring("error: the trained parameters are not finite"));
  CHECK(at.has("step-00000004"));
  CHECK(at.has("step-00000006"));
  CHECK(at.has("step-00000008"));
  CHECK_FALSE(at.has("step-00000002"));
}

TEST_CASE("resuming takes the last finite checkpoint, and says so") {
  const diverged_run at;
  const auto again = at.train(at.flags + "--steps 6 --resume auto");
  INFO(again.output);
  CHECK(again.exit_code == 0);
  CHECK_THAT(again.output, ContainsSubstring("skipping a checkpoint: ")
                             && ContainsSubstring("holds a NaN or an infinity")
                             && ContainsSubstring("step-00000004, step 4"));
  CHECK(at.has("step-00000006"));
  CHECK(at.has("step-00000006.not-finite"));
  CHECK(at.has("step-00000008.not-finite"));
  // Restarted again and again, it does not fill the disk.
  for (int i = 0; i < 2; ++i)
    CHECK(at.train(at.flags + diverge + "--resume auto").exit_code == 1);
  CHECK(at.has("step-00000008.not-finite"));
  CHECK_FALSE(at.has("step-00000008.not-finite-2"));
}

TEST_CASE("a checkpoint that is not finite is told wherever it is read") {
  const diverged_run at;
  const auto bad = at.run + "/step-00000008";
  const auto resumed =
    at.train("--endpoint none --optimizer sgd --steps 9 --resume " + bad);
  INFO(resumed.output);
  CHECK_THAT(resumed.output,
             ContainsSubstring("the checkpoint is not finite")
               && ContainsSubstring("holds a NaN or an infinity at the start"));
  CHECK_THAT(
    run_troupe("generate --prompt a --max-tokens 1 --checkpoint", bad).output,
    ContainsSubstring("the texts are likely useless"));
  CHECK_THAT(run_troupe("checkpoint inspect", bad).output,
             ContainsSubstring("not finite: '"));
  const auto file = at.folder / "bad.safetensors";
  CHECK(run_troupe("checkpoint consolidate", bad + " -o " + file).exit_code
        == 0);
  CHECK_THAT(
    at.train("--endpoint none --plain --steps 1 --initial " + file).output,
    ContainsSubstring("holds a NaN or an infinity at the start"));
}

TEST_CASE("a plain run whose parameters end non-finite fails") {
  const tiny_training at;
  const auto run = at.train("--plain " + diverge);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output,
             ContainsSubstring("the trained parameters are not finite"));
}

TEST_CASE("the page of a run that ends non-finite says so") {
  const tiny_training at;
  const auto page = at.folder / "run.html";
  CHECK(at.train("--endpoint none --dashboard 127.0.0.1:0 --dashboard-save "
                 + page + diverge)
          .exit_code
        == 1);
  CHECK_THAT(content(page),
             ContainsSubstring("the trained parameters are not finite")
               && ContainsSubstring("; the run continues; --halt-on-nan"));
}

TEST_CASE("processes agree that a parameter is not finite") {
  const tiny_training at;
  const auto run =
    run_program(program + " launch --processes 2 -- train --text " + at.text
                + tiny + "--endpoint none --ranks 2" + diverge);
  INFO(run.output);
  CHECK(run.exit_code == 1);
  const std::string message = "error: the trained parameters are not finite";
  CHECK(run.output.find(message) != std::string::npos);
  CHECK(run.output.find(message) == run.output.rfind(message));
}
