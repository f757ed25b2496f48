// The authority of a job on several machines, which may be started again.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "healing_processes.hpp"
#include "troupe/engine/launch/authority/record_text.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("processes of several machines meet where the first one listens") {
  const healing_job job(0, way::tcp);
  const auto stays = job.join(1);
  auto lost = job.join(0);
  auto first = meet(lost), second = meet(stays);
  auto a = first.get(), b = second.get();
  CHECK(a.job->place().process == 0);
  CHECK(b.job->place().process == 1);
  leave(a);
  lost.reset();
  leave(b);
  b = meet(stays, all_after(4)).get();
  CHECK(b.job->place().processes == 1);

  std::promise<void> asked;
  std::optional events(
    stays->on_events({.change = [&](std::int64_t, bool at_once) {
      if (!at_once)
        asked.set_value();
    }}));
  auto next = meet(job.join(0));
  asked.get_future().wait();
  events.reset();
  leave(b);
  second = meet(stays, all_after(5));
  CHECK(next.get().job->place().process == 1);
  CHECK(second.get().job->place().process == 0);
}

TEST_CASE("an authority that is started again goes on from its record") {
  healing_job job(0, way::tcp);
  auto [stays, lost, a, b] = meet_both(job);
  job.restart_authority();
  // Nobody notices, as steps go on; then a process is lost.
  while (job.authority().processes() < 2)
    std::this_thread::yield();
  CHECK(job.authority().state() == authority_state::deciding);
  leave(b);
  lost.reset();
  leave(a);
  a = meet(stays, all_after(7)).get();
  CHECK(a.epoch == 2);
  CHECK(a.hosting == std::vector<std::int32_t>{0, 0, 0, 0});
  stays->finish();
  while (job.authority().state() == authority_state::deciding)
    std::this_thread::yield();
  CHECK(job.authority().state() == authority_state::done);
}

TEST_CASE("a process lost near the job's end learns that the job is done") {
  const healing_job job(0, way::tcp, {}, std::chrono::minutes(5));
  auto [stays, lost, a, b] = meet_both(job);
  leave(b);
  lost.reset();
  leave(a);
  a = meet(stays, all_after(7)).get();
  stays->finish();
  while (job.authority().processes() > 0)
    std::this_thread::yield();
  CHECK(job.authority().state() == authority_state::deciding);
  CHECK(meet(job.join(1)).get().job == nullptr);
  while (job.authority().state() == authority_state::deciding)
    std::this_thread::yield();
  CHECK(job.authority().state() == authority_state::done);
}

TEST_CASE("a loss while the authority is away is healed once it is back") {
  healing_job job(0, way::tcp);
  auto [stays, lost, a, b] = meet_both(job);
  leave(b);
  lost.reset();
  leave(a);
  auto waits = meet(stays, all_after(7));
  job.restart_authority();
  a = waits.get();
  CHECK(a.epoch == 2);
  CHECK(a.job->place().processes == 1);
}

TEST_CASE("a process that comes before the job begins asks again") {
  const healing_job job(0, way::tcp);
  CHECK_THROWS_WITH(job.join(-1, "0.1", std::chrono::milliseconds(100)),
                    ContainsSubstring("the job has not begun"));
  auto early = std::async(std::launch::async, [&] { return job.join(-1); });
  const auto one = job.join(0);
  CHECK(early.get() != nullptr);
}

TEST_CASE("an authority's record survives its text") {
  membership::job_record record{.revision = 5,
                                .epoch = {.number = 3,
                                          .from_step = 17,
                                          .members = {0, 1712},
                                          .hosting = {0, 1712, 0},
                                          .givers = {0, -1, 0},
                                          .cause = "a \"process\" was lost"},
                                .checkpoint_step = 10,
                                .drained = {1},
                                .failures = {{false, 1, 16, 1000}}};
  const auto text = record_text(record);
  const auto read = read_record(text);
  CHECK(record_text(read) == text);
  CHECK(read.epoch.hosting == record.epoch.hosting);
  CHECK(read.failures.at(0).age_us == 1000);
  CHECK_THROWS_WITH(read_record("{"), ContainsSubstring("not JSON"));
  CHECK_THROWS_WITH(read_record("{}"), ContainsSubstring("'revision'"));
  auto stranger = record;
  stranger.epoch.hosting[0] = 7;
  CHECK_THROWS_WITH(read_record(record_text(stranger)),
                    ContainsSubstring("'hosting'"));
}
