#include "troupe/cli/train/checkpoint_saver.hpp"

#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <future>
#include <thread>

#include "../actors/captured_log.hpp"
#include "../engine/transport/joined_meshes.hpp"
#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;
using namespace troupe;
using namespace troupe::testing;

namespace {

void save_part(cli::checkpoint_saver& saver, std::int32_t part) {
  saver.after_step({.step = 4}, [part] {
    return cli::checkpoint_saver::snapshot{
      {part, {{part == 0 ? "a" : "b", at::zeros({1})}}}};
  });
}

/// Two processes that save step 4.
class saving_job {
 public:
  explicit saving_job(cli::saver_timeouts timeouts)
    : timeouts_(std::move(timeouts)) {
    options_.checkpoints.folder = folder_ / "run";
    options_.checkpoints.every = 2;
  }

  using work = std::function<void(mesh& job, cli::checkpoint_saver&)>;
  /// `lead` runs in this thread, once process 0 writes its part; `follow` in
  /// process 1, which leaves when both have ended.
  void run(const work& lead, const work& follow) {
    joined_meshes meshes(2);
    const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
      job->start({});
      cli::train_setup setup;
      setup.trainer.job = job;
      setup.trainer.schedule.placement.ranks = 2;
      cli::checkpoint_saver saver(options_, setup, {"name"}, nullptr,
                                  timeouts_);
      if (job->place().leads()) {
        save_part(saver, 0);
        lead(*job, saver);
        ended_.set_value();
      } else {
        follow(*job, saver);
        ended_.get_future().wait_for(60s);
      }
    });
    CHECK(errors == std::vector<std::string>(2));
  }

  bool is_saved() const {
    return std::filesystem::exists(folder_ / "run/step-00000004");
  }

 private:
  temporary_folder folder_;
  cli::saver_timeouts timeouts_;
  cli::train_options options_;
  std::promise<void> ended_;
};

/// What `finish` of process 0 fails with, which must be `io`.
std::string failure_of(cli::saver_timeouts timeouts,
                       const saving_job::work& follow) {
  saving_job job(std::move(timeouts));
  std::string text;
  job.run(
    [&](mesh&, cli::checkpoint_saver& saver) {
      try {
        saver.finish();
      } catch (const error& reason) {
        CHECK(reason.code() == error_code::io);
        text = reason.what();
      }
    },
    follow);
  CHECK_FALSE(job.is_saved());
  return text;
}

void do_nothing(mesh&, cli::checkpoint_saver&) {}

void write_part(mesh&, cli::checkpoint_saver& saver) {
  save_part(saver, 1);
  saver.finish();
}

}  // namespace

// Heartbeats come once a second.
TEST_CASE("the part of a process that is stopped is not waited for forever") {
  const auto expected = ContainsSubstring(
    "process 1 has not written its part, and has sent "
    "nothing for 0.1 s: is it stopped?");
  CHECK_THAT(failure_of({.silence = 100ms}, do_nothing), expected);
  CHECK_THAT(
    failure_of({.last_silence = 100ms, .is_stopping = [] { return true; }},
               do_nothing),
    expected);
}

TEST_CASE("parts that are reported and never appear end the checkpoint") {
  CHECK_THAT(
    failure_of({.delay = 50ms}, [](mesh& job, auto&) { job.note(0, "4 "); }),
    ContainsSubstring("all processes have written their parts, and some are "
                      "not there"));
}

TEST_CASE("a checkpoint is not saved in a folder that another job has by now") {
  const temporary_folder at;
  cli::train_options options;
  options.checkpoints.folder = at / "run";
  cli::train_setup setup;
  setup.trainer.schedule.placement.ranks = 1;
  folder_lock own(at / "run");
  cli::checkpoint_saver saver(options, setup, {"name"}, &own);
  const auto save = [&](std::int64_t step) {
    saver.after_step(
      {.step = step},
      [] {
        return cli::checkpoint_saver::snapshot{{0, {{"a", at::zeros({1})}}}};
      },
      true);
    saver.finish();
  };
  std::filesystem::remove_all(at / "run");
  save(1);
  std::filesystem::rename(at / "run", at / "moved");
  const folder_lock other(at / "run");
  CHECK_THROWS_MATCHES(save(2), error, says("run: in use: process"));
  CHECK(checkpoint_folder(at / "run").steps().empty());
  CHECK(checkpoint_folder(at / "moved").steps()
        == std::vector<std::int64_t>{1});
}

TEST_CASE("a warning reports a checkpoint that takes long to write") {
  const captured_log log;
  saving_job job({.warning = 10ms});
  job.run(
    [](mesh&, auto& saver) { saver.finish(); },
    [&](mesh& mine, auto& saver) {
      const auto until = std::chrono::steady_clock::now() + 60s;
      while (log.text().empty() && std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(1ms);
      write_part(mine, saver);
    });
  CHECK_THAT(log.text(), ContainsSubstring("the checkpoint of step 4 is still "
                                           "being written, for "));
  CHECK(job.is_saved());
}

TEST_CASE("after a failure a checkpoint is completed, or abandoned in time") {
  const captured_log log;
  saving_job completed({});
  completed.run([](mesh&, auto& saver) { saver.finish_within(60s); },
                write_part);
  CHECK(log.text().empty());
  CHECK(completed.is_saved());
  saving_job abandoned({});
  abandoned.run([](mesh&, auto& saver) { saver.finish_within(50ms); },
                do_nothing);
  CHECK_THAT(log.text(),
             ContainsSubstring("the checkpoint of step 4 is abandoned: it was "
                               "not written within 0.05 s"));
  CHECK_FALSE(abandoned.is_saved());
}
