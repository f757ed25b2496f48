#include "troupe/engine/launch/authority/waiting_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "troupe/engine/launch/authority/deciding_options.hpp"
#include "troupe/engine/launch/authority/record_in_memory.hpp"
#include "troupe/engine/launch/membership_clock.hpp"
#include "troupe/engine/launch/waiting_news.hpp"

using Catch::Matchers::ContainsSubstring;
using namespace troupe;
using namespace std::chrono_literals;
using membership::member_id;

namespace {

membership_request request_of(std::int32_t process, std::int64_t pid) {
  membership_request about;
  about.process = process;
  about.member = membership::no_member;
  about.pid = pid;
  about.host = "b1";
  return about;
}

/// An authority that has taken over, of a job of two ranks.
struct begun_authority {
  membership::job_record record;
  record_in_memory store;
  membership::authority decides;

  explicit begun_authority(std::vector<member_id> members)
    : record{.epoch = {.number = members.empty() ? 0 : 4,
                       .members = members,
                       .hosting = {0, 1}}},
      store(record),
      decides(deciding_options({}, {.pipeline_ranks = 2}, 2), store) {
    for (int i = 0; i < 2; ++i)
      decides.tick(membership_time());
  }
};

}  // namespace

TEST_CASE("an authority names the processes that have not come") {
  begun_authority at({});
  process_table table(3, false);
  const auto nobody = [](member_id) { return false; };
  const auto come = [&](std::int32_t process, std::int64_t pid) {
    const auto member = table.add(request_of(process, pid));
    at.decides.receive(membership_time(), {.member = member, .serial = 1});
  };
  table.add(request_of(0, 6));  // says nothing more
  come(1, 7);
  CHECK(waiting_text(at.decides, table, nobody)
        == "waiting for processes 0, 2: the job begins when all have come");
  come(0, 8);
  come(2, 9);
  CHECK(waiting_text(at.decides, table, nobody).empty());
}

TEST_CASE("a process whose number another one has is noticed while both run") {
  process_table table(2, false);
  bool is_connected = true;
  const auto connected = [&](member_id) { return is_connected; };
  CHECK(table.doubled(request_of(0, 7), connected).empty());
  table.add(request_of(0, 7));
  CHECK(table.doubled(request_of(1, 8), connected).empty());
  CHECK_THAT(table.doubled(request_of(0, 9), connected),
             ContainsSubstring("process 0 (pid 7 on b1) and pid 9 on b1 have "
                               "one number")
               && ContainsSubstring("--machine"));
  auto again = request_of(0, 7);
  again.member = 0;
  CHECK(table.doubled(again, connected).empty());
  is_connected = false;
  CHECK(table.doubled(request_of(0, 9), connected).empty());
  is_connected = true;
  table.end(0);
  CHECK(table.doubled(request_of(0, 9), connected).empty());
}

TEST_CASE(
  "a waiting message repeats at growing intervals until the wait ends") {
  int told = 0;
  waiting_news news([&](const std::string&) { ++told; }, 0ms);
  news.tell(std::string("for a"));
  news.tell(std::string("for a"));
  CHECK(told == 2);  // twice nothing is nothing
  waiting_news late([&](const std::string&) { ++told; }, 1h);
  late.tell(std::string("for b"));
  late.tell(std::string{});
  CHECK(told == 2);
}
