// Authorities that etcd elects, with servers of etcd on this machine.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "etcd_cluster.hpp"
#include "healing_processes.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/authority/authority_candidate.hpp"
#include "troupe/engine/launch/authority/record_in_etcd.hpp"
#include "troupe/engine/launch/etcd/elected_authority.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/transport/mesh.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

void wait_until(const std::function<bool()>& is_so) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error("it did not happen within a minute");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// Waits for a cluster to have a leader.
void wait_for(etcd_client& etcd) {
  wait_until([&] {
    try {
      etcd.version("any");
      return true;
    } catch (const error&) {
      return false;
    }
  });
}

/// A job of two ranks, whose authorities three servers of etcd elect.
struct elected_job {
  elected_job() {
    etcd_client etcd(parse_etcd(address));
    wait_for(etcd);
  }

  std::unique_ptr<authority_candidate> candidate() const {
    candidate_options options{.etcd = parse_etcd(address),
                              .where = free_port(),
                              .lease = std::chrono::seconds(2)};
    options.start = [options] {
      const auto store = [etcd = options.etcd](membership::job_record first) {
        return std::make_unique<record_in_etcd>(etcd, std::move(first),
                                                [](const std::string&) {});
      };
      return std::make_unique<authority_server>(
        parse_endpoint(options.where),
        authority_server_options{.processes = 2,
                                 .shown = {.insecure = true},
                                 .silent_after = std::chrono::seconds(3),
                                 .make_store = store});
    };
    return std::make_unique<authority_candidate>(options);
  }

  static void wait_for_election(authority_candidate& candidate) {
    wait_until([&] {
      candidate.tick();
      return candidate.server() != nullptr;
    });
  }

  std::shared_ptr<job_membership> join(std::int32_t process) const {
    membership_options options{
      .authority = address, .pipeline_ranks = 2, .hosting = {0, 1}};
    auto& place = options.joining.place;
    place.launcher = "test";
    place.process = process;
    place.processes = 2;
    options.joining.shown.insecure = true;
    return std::make_shared<job_membership>(options);
  }

  etcd_cluster cluster{3};
  const std::string address = cluster.address("job");
};

}  // namespace

TEST_CASE("the address of etcd names servers and a job") {
  const auto read = [](const std::string& name) -> std::optional<std::string> {
    if (name == "ETCDCTL_USER")
      return "root:pass:word";
    return name == "ETCDCTL_CACERT" ? std::optional<std::string>("ca.pem")
                                    : std::nullopt;
  };
  const auto options = parse_etcd("etcds://one,two:99/gpt", read);
  CHECK(options.servers == std::vector<std::string>{"one:2379", "two:99"});
  CHECK(options.job == "gpt");
  CHECK(options.uses_tls);
  CHECK(options.user == "root");
  CHECK(options.password == "pass:word");
  CHECK(options.ca_file == "ca.pem");
  CHECK_FALSE(parse_etcd("etcd://one/gpt", read).uses_tls);
  for (const auto* wrong :
       {"etcd://one", "etcd://one/", "etcd:///gpt", "etcd://one:x/gpt",
        "etcd://one/gpt/two", "etcd://one:0x10/gpt"})
    CHECK_THROWS_AS(parse_etcd(wrong, read), error);
}

TEST_CASE("keys in etcd change by compare-and-swap") {
  if (!etcd_cluster::is_installed())
    SKIP("there is no etcd; scripts/setup gets it where it can");
  const etcd_cluster cluster(1);
  etcd_client etcd(parse_etcd(cluster.address("job")));
  wait_for(etcd);
  CHECK_THROWS_WITH(elected_authority(etcd), ContainsSubstring("is elected"));
  CHECK_FALSE(etcd.get("key"));
  CHECK(etcd.put("key", "one", 0));
  CHECK_FALSE(etcd.put("key", "two", 0));
  CHECK(etcd.put("key", std::string("t\0wo", 4), 1));
  CHECK(etcd.version("key") == 2);
  CHECK(etcd.get("key")->value == std::string("t\0wo", 4));
  CHECK_FALSE(etcd_client(parse_etcd(cluster.address("other"))).get("key"));
  etcd.erase("key");
  CHECK(etcd.version("key") == 0);
  const auto lease = etcd.grant_lease(std::chrono::seconds(60));
  CHECK(etcd.put("key", "three", 0, lease));
  CHECK(etcd.keep_lease(lease));
  etcd.revoke_lease(lease);
  CHECK_FALSE(etcd.keep_lease(lease));
  CHECK_FALSE(etcd.get("key"));
}

TEST_CASE("another authority is elected when one ends and goes on") {
  if (!etcd_cluster::is_installed())
    SKIP("there is no etcd; scripts/setup gets it where it can");
  const elected_job job;
  auto one = job.candidate(), other = job.candidate();
  job.wait_for_election(*one);
  other->tick();
  CHECK(other->server() == nullptr);
  auto [stays, lost, a, b] = meet_both(job);
  CHECK(a.epoch == 1);
  one.reset();  // resigns
  wait_until([&] {
    other->tick();
    return other->server() != nullptr && other->server()->processes() == 2;
  });
  leave(b);
  lost.reset();
  leave(a);
  a = meet(stays, {{0, 7}, {1, 7}}).get();
  CHECK(a.epoch == 2);
  CHECK(a.hosting == std::vector<std::int32_t>{0, 0});

  // The job is done: nobody else is to be elected.
  auto third = job.candidate();
  third->tick();
  stays->finish();
  wait_until([&] { return other->server()->state() == authority_state::done; });
  other->finish();
  other.reset();
  wait_until([&] {
    third->tick();
    return third->has_finished();
  });
  CHECK(third->server() == nullptr);
}

TEST_CASE("an authority waits for most servers of etcd and then goes on") {
  if (!etcd_cluster::is_installed())
    SKIP("there is no etcd; scripts/setup gets it where it can");
  elected_job job;
  auto elected = job.candidate();
  job.wait_for_election(*elected);
  auto [stays, lost, a, b] = meet_both(job);
  job.cluster.kill(0);  // one of three is not missed
  leave(b);
  lost.reset();
  leave(a);
  a = meet(stays, {{0, 3}, {1, 3}}).get();
  CHECK(a.epoch == 2);

  job.cluster.kill(1);
  auto joins =
    std::async(std::launch::async, [&] { return job.join(1)->meet({}); });
  for (int i = 0; i < 3; ++i)
    elected->tick();
  CHECK(elected->server() != nullptr);
  CHECK(joins.wait_for(std::chrono::milliseconds(300))
        == std::future_status::timeout);

  std::promise<void> asked;
  std::optional events(
    stays->on_events({.change = [&](std::int64_t, bool at_once) {
      if (!at_once)
        asked.set_value();
    }}));
  job.cluster.start(0);
  auto change = asked.get_future();
  wait_until([&] {
    elected->tick();
    return change.wait_for(std::chrono::milliseconds(0))
           == std::future_status::ready;
  });
  events.reset();
  leave(a);
  auto third = meet(stays, {{0, 9}, {1, 9}});
  CHECK(third.get().epoch == 3);
  CHECK(joins.get().job->place().processes == 2);
}
