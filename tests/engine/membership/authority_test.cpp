#include "troupe/engine/membership/authority.hpp"

#include <catch2/catch_test_macros.hpp>

#include <map>
#include <optional>
#include <utility>

#include "troupe/engine/membership/member.hpp"

using namespace troupe::membership;
using namespace std::chrono_literals;

namespace {

class memory_store : public record_store {
 public:
  std::optional<job_record> read() override { return stored; }
  std::optional<std::int64_t> revision() override {
    return stored ? std::optional(stored->revision) : std::nullopt;
  }
  swap_result swap(const job_record& next) override {
    if (!stored)
      return swap_result::unknown;
    if (next.revision != stored->revision + 1)
      return swap_result::conflict;
    stored = next;
    return swap_result::stored;
  }
  std::optional<job_record> stored = job_record{};
};

/// An authority, and members that do at once what they are asked.
class small_job {
 public:
  explicit small_job(authority_options wanted = options())
    : machine(std::in_place, wanted, store) {}

  static authority_options options() {
    return {.shape = {.pipeline_ranks = 2},
            .least_members = 2,
            .lease = 60s,
            .silent_after = 10s,
            .accused_after = 1s};
  }

  void add(member_id id, member_id replaces = no_member) {
    members.emplace(
      id,
      member(
        {.self = id, .replaces = replaces, .lease = 60s, .report_every = 1s},
        now));
  }
  /// Time passes, in seconds; all report, and orders are followed.
  void run(int seconds) {
    for (; seconds > 0; --seconds) {
      now += 1s;
      follow(machine->tick(now));
      for (auto& [id, of] : members)
        perform(of, of.tick(now));
    }
  }
  void perform(member& of, member_output out) {
    if (out.report)
      follow(machine->receive(now, *out.report));
    if (out.stops_steps)
      perform(of, of.stopped(now, copies(of)));
    if (out.prepares)
      perform(of, of.loaded(now, of.current().number));
  }
  void follow(const authority_output& out) {
    for (const auto& order : out.orders)
      if (const auto found = members.find(order.member); found != members.end())
        perform(found->second, found->second.receive(now, order));
    restarts.insert(restarts.end(), out.restarts.begin(), out.restarts.end());
  }
  std::vector<held_copy> copies(const member& of) const {
    std::vector<held_copy> held;
    for (std::int32_t rank = 0; rank < 2 && of.current().number > 0; ++rank)
      held.push_back({rank, step, copy_kind::applied});
    return held;
  }
  const epoch& current() const { return machine->record().epoch; }

  memory_store store;
  std::optional<authority> machine;
  std::map<member_id, member> members;
  std::vector<member_id> restarts;
  moment now = 0s;
  std::int64_t step = 0;
};

small_job running_job(authority_options options = small_job::options()) {
  small_job job(options);
  job.add(1);
  job.add(2);
  job.run(3);
  REQUIRE(job.machine->phase() == authority_phase::running);
  REQUIRE(job.current().hosting == hosting_map{1, 2});
  return job;
}

}  // namespace

TEST_CASE("a job begins when enough members are there") {
  small_job job;
  job.add(1);
  job.run(5);
  CHECK(job.current().number == 0);
  job.add(2);
  job.run(2);
  CHECK(job.machine->phase() == authority_phase::running);
  CHECK(job.current().number == 1);
  for (const auto& [id, of] : job.members)
    CHECK(of.takes_part(1));
}

TEST_CASE("a silent member's ranks go to others after a while") {
  auto job = running_job();
  job.step = 7;
  job.members.erase(2);
  job.run(9);
  CHECK(job.current().number == 1);
  job.run(3);
  CHECK(job.current().number == 2);
  CHECK(job.current().hosting == hosting_map{1, 1});
  CHECK(job.current().from_step == 7);
  CHECK(job.current().cause == "member 2 is silent");
}

TEST_CASE("a member that is known to have ended is not waited for") {
  auto job = running_job();
  job.members.erase(2);
  job.follow(job.machine->member_ended(job.now, 2));
  CHECK(job.current().number == 2);
  CHECK(job.machine->phase() == authority_phase::running);
}

TEST_CASE("a member that was given up comes back as a spare") {
  auto job = running_job();
  const auto away = job.members.extract(2);
  job.run(13);
  REQUIRE(job.current().hosting == hosting_map{1, 1});
  job.members.insert_or_assign(2, away.mapped());
  job.run(3);
  CHECK(job.current().number == 2);
  CHECK(job.members.at(2).stage() == member_stage::frozen);
  job.follow(job.machine->balance(job.now));
  CHECK(job.current().hosting == hosting_map{1, 2});
}

TEST_CASE("the end of a member that is of no use interrupts nothing") {
  auto options = small_job::options();
  options.least_members = 3;
  options.keeps_snapshots = false;
  small_job job(options);
  for (const member_id id : {1, 2, 3})
    job.add(id);
  job.run(3);
  REQUIRE(job.current().released.size() == 1);
  const auto spare = job.current().released[0];
  job.members.erase(spare);
  job.follow(job.machine->member_ended(job.now, spare));
  job.run(15);
  CHECK(job.current().number == 1);
  CHECK(job.machine->phase() == authority_phase::running);
}

TEST_CASE("wishes are met by a new epoch, or dropped") {
  auto job = running_job();
  job.follow(job.machine->move(job.now, {0, 1}));
  job.follow(job.machine->move(job.now, {0, 9}));
  CHECK(job.current().number == 1);
  job.follow(job.machine->move(job.now, {0, 2}));
  CHECK(job.current().hosting == hosting_map{2, 2});
  job.follow(job.machine->drain(job.now, 2));
  CHECK(job.current().hosting == hosting_map{1, 1});
  CHECK(job.current().released == std::vector<member_id>{2});
  CHECK(job.members.at(2).stage() == member_stage::left);
}

TEST_CASE("the next authority goes on with the epoch that runs") {
  auto job = running_job();
  authority next(small_job::options(), job.store);
  next.tick(job.now);
  CHECK(next.phase() == authority_phase::starting);
  next.tick(job.now);
  CHECK(next.phase() == authority_phase::preparing);
  for (auto& [id, of] : job.members)
    next.receive(job.now, *of.tick(of.next_tick()).report);
  CHECK(next.phase() == authority_phase::running);
  CHECK(next.record().epoch.number == 1);
  // The one before finds out, and renews no lease.
  CHECK(
    job.machine->receive(job.now, {.member = 1, .serial = 99}).orders.empty());
  CHECK(job.machine->phase() == authority_phase::deposed);
}

TEST_CASE("without its store an authority waits, and nobody is lost") {
  auto job = running_job();
  const auto record = std::exchange(job.store.stored, std::nullopt);
  job.run(30);
  job.store.stored = record;
  job.run(3);
  CHECK(job.machine->phase() == authority_phase::running);
  CHECK(job.current().number == 1);
}

TEST_CASE("a job without a copy of a state stops and names its ranks") {
  auto options = small_job::options();
  options.lease = 20s;
  auto job = running_job(options);
  job.members.clear();
  job.add(3);
  job.run(15);
  CHECK(job.machine->phase() == authority_phase::freezing);
  job.run(10);
  CHECK(job.machine->phase() == authority_phase::stopped);
  CHECK(job.machine->record().stop_reason
        == "no copy is left of the states of ranks 0, 1");
}

TEST_CASE("a lost process is restarted, and its ranks wait for it") {
  auto options = small_job::options();
  options.policy.lost_member = {remedy::restart, 1, 600s};
  auto job = running_job(options);
  job.add(3);
  job.add(4);
  job.run(1);
  job.follow(job.machine->move(job.now, {1, 4}));
  job.run(2);
  REQUIRE(job.current().hosting == hosting_map{1, 4});
  job.members.erase(1);
  job.follow(job.machine->member_ended(job.now, 1));
  CHECK(job.restarts == std::vector<member_id>{1});
  job.add(5);  // another one
  job.run(5);
  CHECK(job.machine->phase() == authority_phase::freezing);
  CHECK(job.current().number == 2);
  job.add(6, 1);
  job.run(2);
  CHECK(job.current().number == 3);
  CHECK(job.current().hosting == hosting_map{6, 4});
  job.members.erase(6);
  job.follow(job.machine->member_ended(job.now, 6));
  CHECK(job.machine->phase() == authority_phase::stopped);
}

TEST_CASE("a job that has lost too many members ends in one more epoch") {
  auto options = small_job::options();
  options.policy.lost_member = {remedy::rehost, 0, 600s};
  options.ends_in_epoch = true;
  auto job = running_job(options);
  job.add(3);
  job.run(2);
  CHECK(job.current().ends.empty());
  job.members.erase(2);
  job.follow(job.machine->member_ended(job.now, 2));
  job.run(2);
  CHECK(job.machine->phase() == authority_phase::running);
  CHECK(job.current().number == 2);
  CHECK_FALSE(job.current().ends.empty());
  job.members.erase(1);
  job.follow(job.machine->member_ended(job.now, 1));
  job.run(2);
  CHECK(job.machine->phase() == authority_phase::stopped);
}

TEST_CASE("ranks that wait for a restart in vain go to others") {
  auto options = small_job::options();
  options.policy.lost_member = {remedy::restart, 1, 600s};
  options.policy.restart_patience = 20s;
  auto job = running_job(options);
  job.members.erase(2);
  job.follow(job.machine->member_ended(job.now, 2));
  job.run(18);
  CHECK(job.current().number == 1);
  job.run(4);
  CHECK(job.current().hosting == hosting_map{1, 1});
}

TEST_CASE("a job that ends in its epoch ends under another authority, too") {
  auto options = small_job::options();
  options.policy.lost_member = {remedy::stop};
  options.ends_in_epoch = true;
  auto job = running_job(options);
  job.members.erase(2);
  job.follow(job.machine->member_ended(job.now, 2));
  job.run(2);
  REQUIRE(job.current().ends
          == "a process was lost (--on-failure process=stop)");
  job.machine.emplace(options, job.store);
  job.add(3);
  job.run(3);
  job.follow(job.machine->move(job.now, {1, 3}));
  job.run(2);
  CHECK(job.current().hosting == hosting_map{1, 3});
  CHECK(job.current().ends == "a process was lost (--on-failure process=stop)");
}

TEST_CASE("a step that fails again goes elsewhere, and then is at fault") {
  auto options = small_job::options();
  options.policy.failed_op = {remedy::retry, 9, 600s};
  auto job = running_job(options);
  const auto fail_at = [&](member_id id) {
    auto& of = job.members.at(id);
    const auto epoch = job.current().number;
    job.perform(of, of.fail(job.now, {.kind = trouble_kind::op_failed,
                                      .epoch = epoch,
                                      .step = 5,
                                      .rank = 1,
                                      .what = "step 5: out of memory"}));
    job.run(2);
  };
  fail_at(2);
  CHECK(job.current().number == 2);
  CHECK(job.current().hosting == hosting_map{1, 2});
  CHECK(job.current().cause == "step 5: out of memory");
  fail_at(2);
  CHECK(job.current().hosting == hosting_map{1, 1});
  fail_at(1);
  CHECK(job.machine->record().stop_reason
        == "a step failed in 2 processes: step 5: out of memory");
}

TEST_CASE("ops that fail in one epoch are one failure") {
  auto options = small_job::options();
  options.policy.failed_op = {remedy::retry, 1, 600s};
  auto job = running_job(options);
  for (auto& [id, of] : job.members) {
    auto out = of.fail(job.now, {.kind = trouble_kind::op_failed,
                                 .epoch = 1,
                                 .step = 5,
                                 .what = "no memory"});
    job.follow(job.machine->receive(job.now, *out.report));
  }
  CHECK(job.machine->phase() != authority_phase::stopped);
}

TEST_CASE("a failed op is retried elsewhere if so wished, a fatal one stops") {
  auto options = small_job::options();
  options.policy.failed_op = {remedy::rehost, 3, 600s};
  auto job = running_job(options);
  auto& failing = job.members.at(2);
  job.perform(failing, failing.fail(job.now, {.kind = trouble_kind::op_failed,
                                              .epoch = 1,
                                              .step = 5,
                                              .rank = 1,
                                              .what = "out of memory"}));
  CHECK(job.current().hosting == hosting_map{1, 1});
  CHECK(job.current().cause == "out of memory");
  auto& other = job.members.at(1);
  job.perform(other, other.fail(job.now, {.kind = trouble_kind::fatal,
                                          .epoch = 2,
                                          .what = "NaN"}));
  CHECK(job.machine->record().stop_reason == "NaN");
}

TEST_CASE("a member whose links break in epoch after epoch is left out") {
  auto job = running_job();
  for (std::int64_t number = 1; number <= 3; ++number) {
    REQUIRE(job.current().number == number);
    auto& of = job.members.at(1);
    job.perform(of, of.fail(job.now, {.epoch = number, .peer = 2}));
    job.run(1);
  }
  CHECK(job.current().members == std::vector<member_id>{1});
  CHECK(job.current().hosting == hosting_map{1, 1});
}
