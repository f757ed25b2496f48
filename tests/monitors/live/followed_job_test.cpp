#include "troupe/monitors/live/followed_job.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "../../says.hpp"
#include "faked_leader.hpp"

using nlohmann::json;
using namespace troupe;
using namespace troupe::testing;

namespace {

/// As processes of containers, all have the same pid.
json epoch(int number) {
  return {{"pid", 1}, {"epoch", number}};
}

void watch(live_client& client) {
  client.watch({});
}

/// The last message of the streams, once all have ended.
std::optional<live_message> last_of(live_client& client) {
  std::optional<live_message> last;
  client.stream([&](const live_message& message) {
    last = message;
    return true;
  });
  return last;
}

}  // namespace

TEST_CASE("a client follows a job to the process that leads it next") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  faked_leader first(where, epoch(2));
  followed_job job(where);
  job.client().watch({});
  first.leave();
  const auto last = last_of(job.client());
  REQUIRE(last);
  CHECK(last->content["goes_on"] == true);
  const faked_leader second(where, epoch(3));
  REQUIRE(job.follow(&*last, watch));
  CHECK(job.client().health()["epoch"] == 3);
  // The connection was closed by the process that still leads the job.
  CHECK_THROWS_MATCHES(job.follow(nullptr, watch), error, says("was cut"));
}

TEST_CASE("a client begins its streams in a process that refuses at first") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  faked_leader first(where, epoch(2));
  followed_job job(where);
  first.leave();
  const faked_leader second(where, epoch(3));
  int tries = 0;
  CHECK(job.follow(nullptr, [&](live_client&) {
    if (++tries < 3)
      throw error(error_code::transport, "busy");
  }));
  CHECK(tries == 3);
}

TEST_CASE("a job that is over, or does not heal, is not followed") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  faked_leader ending(where, epoch(2));
  followed_job over(where);
  over.client().watch({});
  ending.end();
  const auto last = last_of(over.client());
  REQUIRE(last);
  CHECK_FALSE(last->content.contains("goes_on"));
  CHECK_FALSE(over.follow(&*last, watch));
  faked_leader mortal(where, {{"pid", 1}});
  followed_job one(where);
  mortal.leave();
  CHECK_THROWS_MATCHES(one.follow(nullptr, watch), error,
                       says(where + ": the stream was cut"));
}

TEST_CASE("a job that has failed is an error, and says why") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  faked_leader leader(where, epoch(2));
  followed_job job(where);
  job.client().watch({});
  leader.end("process 1 is gone");
  const auto last = last_of(job.client());
  REQUIRE(last);
  CHECK_THROWS_MATCHES(job.follow(&*last, watch), error,
                       says("the job has failed: process 1 is gone"));
}

TEST_CASE("a job that nobody leads any more is an error") {
  const temporary_folder folder;
  const auto where = "unix:" + (folder / "job");
  faked_leader leader(where, epoch(2));
  followed_job job(where, {}, 0.1);
  leader.leave();
  CHECK_THROWS_MATCHES(
    job.follow(nullptr, watch), error,
    says("no process has led the job at " + where + " for 0.1 s"));
  job.interrupt();
  CHECK_THROWS_MATCHES(job.follow(nullptr, watch), error, says("interrupted"));
}
