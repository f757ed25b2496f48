// Processes of a job that heals, as threads of this one, and their authority.
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "healing_processes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/authority/record_in_file.hpp"
#include "troupe/engine/launch/authority/record_text.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/launch/membership_messages.hpp"
#include "troupe/engine/transport/mesh.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a job's first epoch has the hosting that its processes bring") {
  const healing_job job;
  const auto one = job.join(0), other = job.join(1);  // until both have met
  auto first = meet(one), second = meet(other);
  auto a = first.get(), b = second.get();
  CHECK(a.epoch == 1);
  CHECK(a.job->place().process == 0);
  CHECK(b.job->place().process == 1);
  CHECK(b.job->place().processes == 2);
  CHECK(a.hosting == std::vector<std::int32_t>{0, 0, 1, 1});
  CHECK(b.hosting == a.hosting);
}

TEST_CASE("the ranks of a lost process go to the others, and to the next one") {
  const healing_job job;
  auto [stays, lost, a, b] = meet_both(job);
  leave(b);
  lost.reset();  // its connection to the authority ends
  leave(a);
  a = meet(stays, all_after(7)).get();
  CHECK(a.epoch == 2);
  CHECK(a.job->place().processes == 1);
  CHECK(a.hosting == std::vector<std::int32_t>{0, 0, 0, 0});

  // Another life of it: the job goes on until the next step's end.
  std::promise<bool> asked;
  std::optional events(
    stays->on_events({.change = [&](std::int64_t, bool at_once) {
      if (!at_once)
        asked.set_value(true);
    }}));
  auto next = meet(job.join(1));
  CHECK(asked.get_future().get());
  events.reset();
  leave(a);
  auto third = meet(stays, all_after(9));
  a = third.get();
  b = next.get();
  CHECK(a.epoch == 3);
  CHECK(b.epoch == 3);
  CHECK(a.job->place().process == 0);
  CHECK(std::ranges::count(a.hosting, 1) == 2);
  CHECK(b.hosting == a.hosting);
}

TEST_CASE("a spare process takes the ranks of a lost one") {
  const healing_job job(1);
  auto lost = job.join(0);
  const auto stays = job.join(1), spare = job.join(2);
  auto first = meet(lost), second = meet(stays), third = meet(spare);
  auto a = first.get(), b = second.get(), c = third.get();
  CHECK(c.job->place().processes == 3);
  CHECK(c.hosting == std::vector<std::int32_t>{0, 0, 1, 1});
  leave(a);
  lost.reset();
  leave(b);
  leave(c);
  second = meet(stays, all_after(3));
  third = meet(spare);
  b = second.get();
  c = third.get();
  CHECK(b.job->place().process == 0);
  CHECK(b.hosting == std::vector<std::int32_t>{1, 1, 0, 0});
}

TEST_CASE("a process that does not stop in time is to give up its step") {
  const healing_job job;
  const auto one = job.join(0), other = job.join(1);
  auto first = meet(one), second = meet(other);
  auto a = first.get(), b = second.get();
  std::atomic<int> asked = 0;
  std::promise<void> told;
  const auto events =
    one->on_events({.change = [&](std::int64_t, bool at_once) {
      at_once ? told.set_value() : static_cast<void>(++asked);
    }});
  other->request_hosting({1, 0, 0, 0});
  told.get_future().get();
  CHECK(asked == 1);
  leave(a);
  leave(b);
  first = meet(one, {{0, 4}, {1, 4}});
  second = meet(other, {{2, 4}, {3, 4}});
  CHECK(first.get().hosting == std::vector<std::int32_t>{1, 0, 0, 0});
  second.get();
}

TEST_CASE("callbacks end with their scope") {
  const healing_job job;
  auto [one, other, a, b] = meet_both(job);
  std::atomic<int> late = 0;
  std::promise<void> asked;
  std::optional earlier(
    one->on_events({.change = [&](std::int64_t, bool) { ++late; }}));
  const auto current =
    one->on_events({.change = [&](std::int64_t, bool at_once) {
      if (!at_once)
        asked.set_value();
    }});
  earlier.reset();  // the current ones stay
  const auto ended = [](std::atomic<int>& calls, job_membership& of) {
    const auto scope =
      of.on_events({.change = [&](std::int64_t, bool) { ++calls; }});
    throw std::runtime_error("what the callback uses ends next");
  };
  CHECK_THROWS(ended(late, *other));
  other->request_hosting({1, 0, 0, 0});
  asked.get_future().get();
  leave(a);
  leave(b);
  auto first = meet(one, {{0, 4}, {1, 4}});
  auto second = meet(other, {{2, 4}, {3, 4}});
  CHECK(first.get().epoch == 2);
  CHECK(second.get().epoch == 2);
  CHECK(late == 0);
  one.reset();  // before the scope
}

TEST_CASE("a wait for a silent process ends with the epoch") {
  const healing_job job;
  auto [one, other, a, b] = meet_both(job);
  mesh_events handlers;
  handlers.arrived = [](std::int32_t, const frame&) {};
  a.job->start(handlers);
  b.job->start(handlers);
  b.job->stop();  // it sends no heartbeats either
  auto wait = std::async(std::launch::async, [&a] { a.job->barrier(); });
  other->request_hosting({1, 0, 0, 0});
  CHECK_THROWS_MATCHES(wait.get(), troupe::error, says("has left"));
  leave(b);
  auto first = meet(one), second = meet(other);
  CHECK(first.get().epoch == 2);
  CHECK(second.get().epoch == 2);
}

TEST_CASE("a process waits longer to leave where no authority can be asked") {
  const auto seconds_until_stays = [](way by) {
    healing_job job(0, by);
    const auto both = meet_both(job);
    std::promise<void> stays;
    const auto events =
      both.one->on_events({.stays = [&] { stays.set_value(); }});
    job.end_authority();
    const auto began = std::chrono::steady_clock::now();
    both.one->leave();
    stays.get_future().get();
    return std::chrono::duration<double>(std::chrono::steady_clock::now()
                                         - began)
      .count();
  };
  CHECK(seconds_until_stays(way::unix_socket) >= 0.3);
  CHECK(seconds_until_stays(way::tcp) >= 1.2);
}

TEST_CASE("a process that wants to leave does once others have its ranks") {
  const healing_job job;
  const auto stays = job.join(0), leaves = job.join(1);
  auto first = meet(stays), second = meet(leaves);
  auto a = first.get(), b = second.get();
  leaves->leave();
  std::promise<void> rests, left;
  std::atomic<int> calls = 0;  // handlers are copied before each call
  std::optional events(leaves->on_events({.change = [&](std::int64_t, bool) {
    const auto call = ++calls;
    if (call == 1)
      rests.set_value();
    if (call == 2)
      left.set_value();
  }}));
  rests.get_future().get();
  leave(a);
  leave(b);
  first = meet(stays, {{0, 2}, {1, 2}});
  second = meet(leaves, {{2, 2}, {3, 2}});
  a = first.get();
  b = second.get();
  CHECK(a.hosting == std::vector<std::int32_t>{0, 0, 0, 0});
  // If a process rests before it is told to leave, the epoch ends. The wait is
  // bounded, since no callback runs during a meeting.
  left.get_future().wait_for(std::chrono::seconds(10));
  events.reset();
  leave(b);
  CHECK(meet(leaves).get().job == nullptr);
  leave(a);
  a = meet(stays, all_after(3)).get();
  CHECK(a.job->place().processes == 1);
}

TEST_CASE("a process whose ranks nobody can take stays") {
  const healing_job job;
  const auto one = job.join(0), other = job.join(1);
  auto first = meet(one), second = meet(other);
  auto a = first.get(), b = second.get();
  std::atomic<bool> stays = false;
  std::atomic<int> asked = 0;
  const auto events =
    one->on_events({.change = [&](std::int64_t, bool) { ++asked; },
                    .stays = [&] { stays = true; }});
  one->leave();
  other->leave();
  while (!stays) {
    std::this_thread::yield();
    if (asked.exchange(0) == 0)
      continue;
    leave(a);
    leave(b);
    first = meet(one, {{0, 2}, {1, 2}, {2, 2}, {3, 2}});
    second = meet(other, {{0, 2}, {1, 2}, {2, 2}, {3, 2}});
    a = first.get();
    b = second.get();
  }
}

TEST_CASE("a state that nobody holds ends the job") {
  const healing_job job;
  auto [stays, lost, a, b] = meet_both(job);
  leave(b);
  lost.reset();
  leave(a);
  // Ranks 2 and 3 can only be as the run began.
  a = meet(stays, {{0, 7}, {1, 7}}).get();
  CHECK(a.epoch == 2);
}

TEST_CASE("an authority refuses processes that don't belong to the job") {
  const healing_job job;
  CHECK_THROWS_AS(job.join(5), error);
  try {
    job.join(-1);
    FAIL("it was not refused");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("the job has not begun"));
  }
}

TEST_CASE("a process with other flags is refused alone") {
  const healing_job job;
  const auto one = job.join(0), other = job.join(1);
  auto first = meet(one), second = meet(other);
  auto a = first.get(), b = second.get();
  try {
    job.join(-1, "0.2");
    FAIL("it was not refused");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(),
               ContainsSubstring("--lr is 0.2 here, but 0.1 in the job"));
  }
  CHECK_FALSE(a.job->lost(1));
}

TEST_CASE("a process that is lost before the job begins is replaced") {
  const healing_job job;
  job.join(1).reset();
  const auto one = job.join(0), other = job.join(1);
  auto first = meet(one, {{0, 0}, {1, 0}}), second = meet(other);
  CHECK(first.get().job->place().processes == 2);
  CHECK(second.get().epoch == 1);
}

TEST_CASE("who waits for a part in a job that is done leaves") {
  const healing_job job(1);
  const auto one = job.join(0), other = job.join(1);
  auto spare = job.join(2);
  auto first = meet(one), second = meet(other), third = meet(spare);
  auto a = first.get(), b = second.get(), c = third.get();
  leave(c);
  spare.reset();
  leave(a);
  leave(b);
  first = meet(one, all_after(1));
  second = meet(other, all_after(1));
  a = first.get();
  b = second.get();
  auto waits = meet(job.join(2));  // nobody lacks hosts
  one->finish();
  CHECK(waits.get().job == nullptr);
  CHECK(job.authority().is_done());
  CHECK(meet(job.join(2)).get().job == nullptr);  // comes too late
  CHECK(meet(job.join(0)).get().job == nullptr);  // started again
}

TEST_CASE("messages to an authority survive their way, others are refused") {
  const membership_request request{
    .process = 3, .pid = 77, .shape = {2, 3, true}, .hosting = {0, 1}};
  const auto read = std::get<membership_request>(
    read_membership(to_frame(membership_message{request})));
  CHECK(read.process == 3);
  CHECK(read.shape == request.shape);
  CHECK(read.hosting == request.hosting);
  CHECK_THROWS_AS(read_membership({frame_type::mail, {}, {}}), error);
  CHECK_THROWS_AS(read_membership({frame_type::control, "\x09", {}}), error);
}

TEST_CASE("a process that ends before it meets the others is not waited for") {
  for (int i = 0; i < 5; ++i) {
    const healing_job job;
    const auto one = job.join(0);
    auto other = job.join(1);
    auto first = meet(one);
    while (!job.authority().has_had_epoch())
      std::this_thread::yield();
    other.reset();
    const auto met = first.get();
    CHECK(met.epoch == 2);
    CHECK(met.hosting == std::vector<std::int32_t>{0, 0, 0, 0});
  }
}
