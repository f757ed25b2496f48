#include "troupe/engine/device/communicator_watch.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/fail.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

class hand_event final : public device_event {
 public:
  bool reached() const override {
    if (broken)
      fail(error_code::device, "the device fell off");
    return done;
  }
  void wait() const override {}
  double seconds_since(const device_event&) const override { return 0; }

  bool done = false;
  bool broken = false;
};

struct noted_calls {
  communicator_watch watch{10s};
  communicator_watch::time_point begin{};
  std::vector<std::shared_ptr<hand_event>> events{};

  explicit noted_calls(int count) {
    for (int i = 0; i < count; ++i) {
      events.push_back(std::make_shared<hand_event>());
      watch.note("call " + std::to_string(i), events.back(), begin);
    }
  }
};

}  // namespace

TEST_CASE("a watch names the call that a communicator is stuck on") {
  noted_calls calls{3};
  CHECK_FALSE(calls.watch.look(calls.begin + 9s));
  calls.events[0]->done = true;
  CHECK_FALSE(calls.watch.look(calls.begin + 11s));
  const auto stuck = calls.watch.look(calls.begin + 22s);
  REQUIRE(stuck);
  CHECK(describe("edge 0->1", *stuck)
        == "edge 0->1 is stuck: call 1 has been running for 11 s, with 1 call behind it");
}

TEST_CASE("a watch forgets finished calls, and time without calls") {
  noted_calls calls{2};
  calls.events[0]->done = calls.events[1]->done = true;
  CHECK_FALSE(calls.watch.look(calls.begin + 60s));
  calls.watch.note("late", std::make_shared<hand_event>(), calls.begin + 100s);
  CHECK_FALSE(calls.watch.look(calls.begin + 109s));
  CHECK(calls.watch.look(calls.begin + 111s)->call == "late");
}

TEST_CASE("a watch that is never asked remembers unfinished calls only") {
  noted_calls calls{3};
  calls.events[0]->done = calls.events[1]->done = true;
  calls.watch.note("next", std::make_shared<hand_event>(), calls.begin + 5s);
  CHECK(calls.watch.look(calls.begin + 16s)->call == "call 2");
}

TEST_CASE("a watch names the call whose device failed") {
  noted_calls calls{1};
  calls.events[0]->broken = true;
  CHECK_THROWS_MATCHES(calls.watch.look(calls.begin), error,
                       Catch::Matchers::Message("call 0: the device fell off"));
}
