// Killed runs of any shape resume from their last checkpoint.
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "background_job.hpp"
#include "troupe_program.hpp"

using namespace troupe::testing;

namespace {

using clock_type = std::chrono::steady_clock;

struct job_shape {
  int processes;
  const char* flags;
};

constexpr job_shape shapes[] = {
  {1, "--ranks 2 --microbatches 2"},
  {2,
   "--ranks 2 --microbatches 4 --schedule dualpipe_v "
   "--stages-per-rank 2 --clip 0.5"},
  {1,
   "--ranks 2 --microbatches 4 --schedule zb_h1 --data-parallel 2 "
   "--shard all --optimizer lion"},
  {2,
   "--ranks 2 --microbatches 4 --schedule interleaved_zb "
   "--stages-per-rank 2 --data-parallel 2 --shard gradients"},
  {1,
   "--ranks 2 --microbatches 2 --data-parallel 4 --shard hybrid "
   "--shard-group 2 --dtype bf16"},
  {3,
   "--ranks 3 --microbatches 4 --schedule eager_1f1b --tie-embeddings "
   "--optimizer sgd --momentum 0.9"},
};

/// A shape of a run of 20 steps, with a checkpoint after each.
class killed_runs {
 public:
  explicit killed_runs(const job_shape& shape) : shape_(shape) {
    const auto begin = clock_type::now();
    whole_ = trained("whole");
    life_ = clock_type::now() - begin;
  }

  /// Kills one process at a point of the run's duration, resumes, and compares
  /// the bytes with those of an uninterrupted run. Nothing but checkpoints may
  /// be left.
  void kill(double moment, std::size_t victim) {
    CAPTURE(shape_.flags, moment, victim);
    {
      const auto run = started("killed", 5);
      std::this_thread::sleep_for(life_ * moment);
      run.signal(victim, SIGKILL);
      for (const auto& each : run.processes)
        each->end(0);
    }
    CHECK(trained("killed") == whole_);
    for (const auto& entry :
         std::filesystem::directory_iterator(at_ / "killed"))
      CHECK(entry.path().filename().string().starts_with("step-000"));
    std::filesystem::remove_all(at_ / "killed");
  }

 private:
  /// `patience`: the seconds for which processes wait for one that was killed
  /// before they met.
  background_job started(const std::string& checkpoints, int patience) const {
    return {shape_.processes,
            fmt::format(
              "{} train --text {} --d-model 16 --layers 4 --heads 2 --seq 8 "
              "--microbatch-size 2 --lr 0.01 --endpoint none --steps 20 "
              "--checkpoint-every 1 --resume auto --checkpoints {} "
              "--save-parameters {} --patience {} {}",
              TROUPE_PROGRAM, text_, at_ / checkpoints, at_ / "parameters",
              patience, shape_.flags),
            at_ / "."};
  }
  /// The bytes of the parameters after a run that must succeed.
  std::string trained(const std::string& checkpoints) const {
    const auto run = started(checkpoints, 60);
    for (const auto& each : run.processes) {
      const auto code = each->end(0);
      INFO(each->output());
      REQUIRE(code == 0);
    }
    return content(at_ / "parameters");
  }

  job_shape shape_;
  temporary_folder at_;
  std::string text_ = write_text(at_);
  std::string whole_;
  clock_type::duration life_{};
};

void check_kills(int count, std::uint32_t seed) {
  std::mt19937 random(seed);
  for (const auto& shape : shapes) {
    killed_runs runs(shape);
    for (int i = 0; i < count; ++i) {
      const auto moment = static_cast<double>(random() % 1000) / 1000;
      runs.kill(moment, random() % static_cast<unsigned>(shape.processes));
    }
  }
}

}  // namespace

TEST_CASE("runs that are killed at random moments lose nothing") {
  check_kills(2, 1);
}

TEST_CASE("runs that are killed 240 times lose nothing", "[.full]") {
  check_kills(40, 2);
}
