#include "troupe/training/checkpoint_saver.hpp"

#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <filesystem>
#include <future>
#include <stdexcept>
#include <thread>

#include "../actors/captured_log.hpp"
#include "../engine/transport/joined_meshes.hpp"
#include "../no_threads.hpp"
#include "../says.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// `part`: 0 or 1; 2: none.
void save_part(checkpoint_saver& saver, std::int32_t part) {
  saver.after_step({.step = 4}, [part] {
    checkpoint_saver::snapshot parts;
    if (part < 2)
      parts[part] = {{part == 0 ? "a" : "b", at::zeros({1})}};
    return parts;
  });
}

/// Processes that save step 4, which has two parts.
class saving_job {
 public:
  /// `leaders`: the part of process 0.
  explicit saving_job(saver_timeouts timeouts, std::int32_t processes = 2,
                      std::int32_t leaders = 0)
    : timeouts_(std::move(timeouts)),
      processes_(processes),
      leaders_(leaders) {}

  using work = std::function<void(mesh& job, checkpoint_saver&)>;
  /// `lead` runs in this thread once process 0 writes its part; `follow` runs
  /// in the others, which leave when it has ended, except for the last one,
  /// which leaves after `lead`. `own`: the lock of process 0.
  void run(const work& lead, const work& follow, folder_lock* own = nullptr) {
    joined_meshes meshes(processes_);
    const auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
      job->start({});
      const auto place = job->place();
      checkpoint_saver saver(
        {.folder = folder(), .every = 2, .timeouts = timeouts_},
        {.parts = 2, .job = job}, {"name"}, place.leads() ? own : nullptr);
      if (place.leads()) {
        save_part(saver, leaders_);
        lead(*job, saver);
        ended_.set_value();
      } else {
        follow(*job, saver);
        if (place.process == processes_ - 1)
          ended_.get_future().wait_for(60s);
      }
    });
    CHECK(errors == std::vector<std::string>(meshes.all.size()));
  }

  std::string folder() const { return folder_ / "run"; }

  bool is_saved() const {
    return std::filesystem::exists(folder_ / "run/step-00000004");
  }

 private:
  temporary_folder folder_;
  saver_timeouts timeouts_;
  std::int32_t processes_, leaders_;
  std::promise<void> ended_;
};

/// The error of process 0's `finish`, whose code must be `io`.
std::string failure_of(saver_timeouts timeouts,
                       const saving_job::work& follow) {
  saving_job job(std::move(timeouts));
  std::string text;
  job.run(
    [&](mesh&, checkpoint_saver& saver) {
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

void wait_until(const std::function<bool()>& holds) {
  const auto until = std::chrono::steady_clock::now() + 60s;
  while (!holds() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(1ms);
  if (!holds())
    throw std::runtime_error("what was waited for did not come");
}

/// Whether process 0 has abandoned a checkpoint in this folder.
bool holds_mark(const std::string& folder) {
  return std::ranges::any_of(
    std::filesystem::directory_iterator(folder),
    [](const auto& entry) { return entry.path().extension() == ".discarded"; });
}

void do_nothing(mesh&, checkpoint_saver&) {}

void write_part(mesh&, checkpoint_saver& saver) {
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
    failure_of({.delay = 50ms},
               [](mesh& job, auto&) {
                 job.send(0, {frame_type::note, "4 ", {}});
               }),
    ContainsSubstring("all processes have written their parts, and some are "
                      "not there"));
}

TEST_CASE("a checkpoint is not saved in a folder that another job has by now") {
  const temporary_folder at;
  folder_lock own(at / "run");
  checkpoint_saver saver({.folder = at / "run"}, {}, {"name"}, &own);
  const auto save = [&](std::int64_t step) {
    saver.after_step(
      {.step = step},
      [] {
        return checkpoint_saver::snapshot{{0, {{"a", at::zeros({1})}}}};
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

TEST_CASE("a process 0 without ranks waits for the parts of the others") {
  const captured_log log;
  saving_job job({.warning = 10ms}, 3, 2);
  job.run([](mesh&, auto& saver) { saver.finish(); },
          [&](mesh& mine, auto& saver) {
            wait_until([&] { return !log.text().empty(); });
            save_part(saver, mine.place().process - 1);
            saver.finish();
          });
  CHECK(job.is_saved());
}

TEST_CASE("a warning reports a checkpoint that takes long to write") {
  const captured_log log;
  saving_job job({.warning = 10ms});
  job.run([](mesh&, auto& saver) { saver.finish(); },
          [&](mesh& mine, auto& saver) {
            wait_until([&] { return !log.text().empty(); });
            write_part(mine, saver);
          });
  CHECK_THAT(log.text(), ContainsSubstring("the checkpoint of step 4 is still "
                                           "being written, for "));
  CHECK(job.is_saved());
}

TEST_CASE("after a failure a checkpoint is completed, or abandoned in time") {
  const captured_log log;
  saving_job completed({.settling = 60s});
  completed.run([](mesh&, auto& saver) { saver.settle(); }, write_part);
  CHECK(log.text().empty());
  CHECK(completed.is_saved());
  saving_job abandoned({.settling = 50ms});
  abandoned.run([](mesh&, auto& saver) { saver.settle(); }, do_nothing);
  CHECK_THAT(log.text(),
             ContainsSubstring("the checkpoint of step 4 is abandoned: it was "
                               "not written within 0.05 s"));
  CHECK_FALSE(abandoned.is_saved());
}

TEST_CASE("a checkpoint is completed although what comes after it throws") {
  saving_job job({.settling = 60s});
  job.run([](mesh&, auto&) {}, write_part);
  CHECK(job.is_saved());
}

TEST_CASE("a process that has reported may leave before others have written") {
  saving_job job({}, 3);
  std::promise<void> has_left;
  job.run(
    [&](mesh& mine, auto& saver) {
      wait_until([&] { return mine.lost(1).has_value(); });
      has_left.set_value();
      saver.finish();
    },
    [&](mesh& mine, auto& saver) {
      const bool is_last = mine.place().process == 2;
      if (is_last)
        has_left.get_future().wait_for(60s);
      save_part(saver, is_last ? 1 : 2);
      saver.finish();
    });
  CHECK(job.is_saved());
}

TEST_CASE("a process that leaves without a report ends the checkpoint") {
  saving_job job({}, 3);
  job.run(
    [](mesh&, auto& saver) {
      CHECK_THROWS_MATCHES(
        saver.finish(), error,
        says("its part is missing: process 1 has left: its program has ended"));
    },
    do_nothing);
  CHECK_FALSE(job.is_saved());
}

TEST_CASE("process 0 tells its own failure, not what follows from it") {
  saving_job job({});
  folder_lock own(job.folder());
  std::filesystem::rename(job.folder(), job.folder() + ".moved");
  const folder_lock other(job.folder());
  job.run(
    [](mesh&, auto& saver) {
      CHECK_THROWS_MATCHES(saver.finish(), error, says("run: in use: process"));
    },
    [&](mesh&, auto& saver) {
      wait_until([&] { return holds_mark(job.folder()); });
      save_part(saver, 1);
    },
    &own);
}

namespace {

/// A single process that saves each step.
struct lone_saver {
  void save(std::int64_t step, bool fails = false) {
    saver.after_step({.step = step}, [fails] {
      if (fails)
        throw std::runtime_error("no copies");
      return checkpoint_saver::snapshot{{0, {{"a", at::zeros({1})}}}};
    });
  }

  temporary_folder folder;
  checkpoint_saver saver{
    {.folder = folder / "run", .every = 1}, {}, {"name"}, nullptr};
};

}  // namespace

TEST_CASE("a checkpoint without a thread that writes it is reported") {
  lone_saver at;
  {
    const no_threads scope;
    at.save(2);
  }
  CHECK_THROWS_MATCHES(at.saver.finish(), error, says("no thread that writes"));
  at.save(4);
  CHECK_NOTHROW(at.saver.finish());
}

TEST_CASE("a step that could not be copied can be saved once more") {
  lone_saver at;
  CHECK_THROWS(at.save(2, true));
  at.save(2);
  at.saver.finish();
  CHECK(std::filesystem::exists(at.folder / "run/step-00000002"));
}
