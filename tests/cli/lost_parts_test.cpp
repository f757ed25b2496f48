// Parts of a checkpoint that never arrive.
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <functional>
#include <stdexcept>

#include "../engine/transport/joined_meshes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/training/checkpoint_saver.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// Process 0 saves its part of step 4; process 1 calls `follow` with its saver,
/// and leaves. Returns the error of process 0.
std::string error_of_leader(
  const std::function<void(checkpoint_saver&)>& follow) {
  const temporary_folder folder;
  joined_meshes meshes(2);
  return in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    job->start({});
    checkpoint_saver saver({.folder = folder / "run", .every = 2},
                           {.parts = 2, .job = job}, {"name"}, nullptr);
    if (!job->place().leads()) {
      follow(saver);
      meshes.all[1].reset();
      return;
    }
    saver.after_step({.step = 4}, [] {
      return checkpoint_saver::snapshot{{0, {{"a", at::zeros({1})}}}};
    });
    saver.finish();
  })[0];
}

}  // namespace

TEST_CASE("a part that can't be written ends the wait for it") {
  const auto failure = error_of_leader([](auto& saver) {
    saver.after_step({.step = 4}, [] {
      return checkpoint_saver::snapshot{
        {1, {{"b", at::zeros({1}, at::kComplexDouble)}}}};
    });
    try {
      saver.finish();
    } catch (const error&) {
      return;
    }
    throw std::runtime_error("complex numbers were written");
  });
  CHECK_THAT(failure, ContainsSubstring("process 1 could not write its part: ")
                        || ContainsSubstring("discarded the checkpoint"));
}

TEST_CASE("a process that is gone ends the wait for its part") {
  const auto failure = error_of_leader([](auto&) {});
  CHECK_THAT(failure, ContainsSubstring("its part is missing: process 1 has"));
}

TEST_CASE("processes whose folders differ end before the first step") {
  const temporary_folder at;
  const auto text = write_text(at);
  for (const auto* each : {"a", "b"})
    std::filesystem::create_directory(at / each);
  const auto process = [&](int number, const std::string& folder) {
    return fmt::format(
      "(cd {} && exec env RANK={} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 "
      "XDG_RUNTIME_DIR={} {} train --text {} --ranks 2 --d-model 16 --layers 4 "
      "--heads 2 --seq 8 --microbatches 2 --endpoint none --steps 2 "
      "--checkpoints run)",
      at / folder, number, at / "", TROUPE_PROGRAM, text);
  };
  const auto run =
    run_program(fmt::format("{{ {} & {}; e=$?; wait $!; exit $e; }}",
                            process(1, "b"), process(0, "a")));
  INFO(run.output);
  CHECK(run.exit_code == 1);
  CHECK_THAT(run.output, ContainsSubstring("--checkpoints run: process 1 ("
                                           + (at / "b") + "/run on "));
  CHECK_THAT(run.output, !ContainsSubstring("step 1/2"));
  CHECK(std::filesystem::is_empty(at / "a/run"));
  CHECK_FALSE(std::filesystem::exists(at / "b/run"));
}

TEST_CASE("a checkpoint whose replacement was interrupted is resumed from") {
  const temporary_folder at;
  const auto text = write_text(at);
  const auto train = [&](int steps, const std::string& more = {}) {
    const auto done = run_troupe(
      "train",
      fmt::format("--text {} --d-model 16 --layers 4 --heads 2 --seq 8 "
                  "--microbatches 2 --endpoint none --steps {} --checkpoints "
                  "{} --keep 1 --validation-fraction 0",
                  text, steps, at / "run"),
      more);
    INFO(done.output);
    CHECK(done.exit_code == 0);
    return done.output;
  };
  train(6);
  const auto last = at / "run/step-00000006";
  std::filesystem::rename(last, at / "run/.step-00000006.replaced");
  at.write("run/probe.troupe-01234567", "left by a killed process");
  const auto file = last + "/part-00000.safetensors";
  CHECK_THAT(train(6, "--resume auto"), ContainsSubstring("step 6"));
  // Nothing was trained, so nothing is saved again.
  const auto written = std::filesystem::last_write_time(file);
  train(6, "--resume auto");
  CHECK(std::filesystem::last_write_time(file) == written);
  CHECK_FALSE(std::filesystem::exists(at / "run/probe.troupe-01234567"));
  CHECK_THAT(train(8, "--resume auto"), ContainsSubstring("from"));
  CHECK(std::filesystem::exists(at / "run/step-00000008"));
}
