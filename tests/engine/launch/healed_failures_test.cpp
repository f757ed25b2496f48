// What an authority does about failures, as its job's processes see it.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "healing_processes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/membership/failure_text.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using hosting = std::vector<std::int32_t>;

namespace {

/// Two processes that have met, at an authority with this policy.
struct two_processes {
  explicit two_processes(const std::string& policy, way by = way::unix_socket)
    : job(0, by, membership::parse_failure_policy(policy)),
      one(job.join(0)),
      other(job.join(1)) {
    meet_all({});
  }

  /// An op of `one` has failed, or of the other one.
  void fail_op(bool is_in_one) {
    leave(a);
    leave(b);
    meet_all(
      failed_op{.step = 5, .rank = 1, .what = "step 5, rank 1: no memory"},
      is_in_one);
  }

  healing_job job;
  std::shared_ptr<job_membership> one, other;
  job_meeting a, b;

 private:
  void meet_all(const std::optional<failed_op>& why, bool is_in_one = false) {
    auto here = why, elsewhere = why;
    if (why)
      (is_in_one ? here : elsewhere)->is_here = true;
    auto first = meet(one, all_after(4), here);
    auto second = meet(other, all_after(4), elsewhere);
    a = first.get();
    b = second.get();
  }
};

}  // namespace

TEST_CASE("ranks wait for a process that is started again") {
  for (const auto by : {way::unix_socket, way::tcp}) {
    two_processes at("process=restart:3/10min:20s", by);
    leave(at.a);
    at.one.reset();
    leave(at.b);
    auto waits = meet(at.other, all_after(3));
    at.one = at.job.join(0);
    auto again = meet(at.one);
    const auto a = again.get(), b = waits.get();
    CHECK(a.epoch == 2);
    CHECK(b.job->place().process == 0);
    CHECK(b.hosting == hosting{1, 1, 0, 0});
  }
}

TEST_CASE("ranks that have waited long enough for a process go to others") {
  two_processes at("process=restart:3/10min:1s");
  leave(at.a);
  at.one.reset();
  leave(at.b);
  CHECK(meet(at.other, all_after(3)).get().hosting == hosting{0, 0, 0, 0});
}

TEST_CASE("a step whose op fails runs again, then elsewhere, then stops") {
  two_processes at("op=retry:9/10min");
  CHECK(at.one->heals_ops());
  at.fail_op(true);
  CHECK(at.a.epoch == 2);
  CHECK(at.a.hosting == hosting{0, 0, 1, 1});
  at.fail_op(true);
  CHECK(at.b.epoch == 3);
  CHECK(at.b.hosting == hosting{0, 1, 1, 1});
  CHECK_THROWS_WITH(at.fail_op(false),
                    ContainsSubstring("the job was stopped: a step failed in 2 "
                                      "processes: step 5, rank 1: no memory"));
}

TEST_CASE("an op that fails goes elsewhere at once if so wished") {
  two_processes at("op=rehost:1/10min");
  at.fail_op(true);
  CHECK(at.a.hosting == hosting{0, 1, 1, 1});
  CHECK_THROWS_WITH(at.fail_op(false), ContainsSubstring("no memory"));
}

TEST_CASE("a job whose ops are not to be run again says so") {
  const two_processes at("process=rehost");
  CHECK_FALSE(at.one->heals_ops());
}
