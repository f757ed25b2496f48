#include "troupe/monitors/live/attachment.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

#include "faked_leader.hpp"

using nlohmann::json;
using namespace troupe;
using namespace troupe::testing;

namespace {

event memory_of(std::int64_t step) {
  memory_event result;
  result.source.step = step;
  return result;
}

/// A monitor of this process, and the steps of the events that it has seen.
class watcher {
 public:
  monitor wanting(const subscription& wants) {
    monitor result{.name = "watcher", .wants = wants};
    result.see = [this](const event& what) {
      const std::scoped_lock lock(mutex_);
      seen_.push_back(source_of(what).step);
    };
    result.finish = [this] { ++finished; };
    return result;
  }
  bool has_seen(const std::vector<std::int64_t>& steps) const {
    return becomes([&] {
      const std::scoped_lock lock(mutex_);
      return seen_ == steps;
    });
  }

  std::atomic<int> finished = 0;

 private:
  mutable std::mutex mutex_;
  std::vector<std::int64_t> seen_;
};

struct healing_job_at {
  json epoch(int number) const { return {{"pid", 1}, {"epoch", number}}; }

  const temporary_folder folder;
  const std::string where = "unix:" + (folder / "job");
};

}  // namespace

TEST_CASE("an attachment goes on with the process that leads the job next") {
  const healing_job_at at;
  faked_leader first(at.where, at.epoch(2));
  watcher sees;
  const auto attached = attach(at.where, sees.wanting({}));
  for (const int step : {1, 2})
    first.job.feed(step_number(step));
  REQUIRE(sees.has_seen({1, 2}));
  first.leave();
  faked_leader second(at.where, at.epoch(3));
  REQUIRE(becomes([&] { return second.job.attached() == 1; }));
  for (const int step : {2, 3})
    second.job.feed(step_number(step));
  CHECK(sees.has_seen({1, 2, 3}));
  CHECK_FALSE(attached.ended());
  second.end();
  CHECK(becomes([&] { return attached.ended(); }));
  CHECK(attached.trouble().empty());
  CHECK(sees.finished == 1);
}

TEST_CASE("repeated steps are not seen again by who does not want their ends") {
  const healing_job_at at;
  faked_leader first(at.where, at.epoch(2));
  watcher sees;
  subscription wants;
  wants.steps = false;
  wants.memory = true;
  const auto attached = attach(at.where, sees.wanting(wants));
  const auto feed = [](faked_leader& leader, std::int64_t step) {
    leader.job.feed(memory_of(step));
    leader.job.feed(step_number(step));
  };
  feed(first, 1);
  first.job.feed(memory_of(2));  // a step that is not finished
  REQUIRE(sees.has_seen({1, 2}));
  first.leave();
  faked_leader second(at.where, at.epoch(3));
  REQUIRE(becomes([&] { return second.job.attached() == 1; }));
  for (const int step : {1, 2, 3})
    feed(second, step);
  CHECK(sees.has_seen({1, 2, 2, 3}));
}

TEST_CASE("an attachment that waits for the next process can go") {
  const healing_job_at at;
  faked_leader leader(at.where, at.epoch(2));
  watcher sees;
  {
    const auto attached = attach(at.where, sees.wanting({}));
    leader.leave();
    CHECK_FALSE(attached.ended());
  }
  CHECK(sees.finished == 1);
}
