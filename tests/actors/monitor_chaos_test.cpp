#include <ATen/Parallel.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr auto everything = module_kinds | tensor_kind::parameter
                            | tensor_kind::gradient | tensor_kind::loss;

/// Blocks the callers of `wait` until it is opened.
class gate {
 public:
  void open() { open_ = true; }
  void wait() const {
    while (!open_)
      std::this_thread::yield();
  }

 private:
  std::atomic<bool> open_ = false;
};

monitor watcher_of(tensor_kind tensors, std::function<void(const event&)> see) {
  monitor watcher;
  watcher.name = "test";
  watcher.wants.ops = true;
  watcher.wants.tensors = tensors;
  watcher.wants.needs = tensor_needs::statistics | tensor_needs::handle;
  watcher.see = std::move(see);
  return watcher;
}

/// Randomly attaches and detaches monitors that watch, throw or stall.
class chaos {
 public:
  chaos(trainer& run, std::shared_ptr<gate> stalls)
    : run_(run), stalls_(std::move(stalls)) {}

  void act() {
    const auto dice = random_() % 10;
    if (dice < 4)
      attached_.push_back(run_.attach(random_monitor()));
    else if (dice < 7 && !attached_.empty())
      detach(random_() % attached_.size());
  }
  void detach_all() {
    while (!attached_.empty())
      detach(attached_.size() - 1);
  }

 private:
  monitor random_monitor() {
    auto watcher = watcher_of(everything, {});
    watcher.wants.every = 1 + static_cast<std::int64_t>(random_() % 3);
    watcher.limits.waiting_events = 1 + random_() % 50;
    switch (random_() % 3) {
      case 0:
        watcher.see = [](const event&) {};
        break;
      case 1:
        watcher.see = [](const event&) { throw std::runtime_error("killed"); };
        break;
      default:
        watcher.see = [stalls = stalls_](const event&) { stalls->wait(); };
        watcher.limits.stuck_seconds = 0.05;
    }
    return watcher;
  }

  void detach(std::size_t i) {
    try {
      run_.detach(attached_[i]);
    } catch (const error&) {
      // Killed or stuck monitors are what this test is about.
    }
    attached_.erase(attached_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  trainer& run_;
  std::shared_ptr<gate> stalls_;
  std::mt19937 random_{5};
  std::vector<std::int64_t> attached_;
};

}  // namespace

TEST_CASE("monitors that come, go, throw and stall change no bit of 1000 steps",
          "[serial]") {
  const small_case what{.ranks = 2, .microbatches = 2};
  trainer watched(model_for(what), options_for(what));
  trainer alone(model_for(what), options_for(what));
  const auto stalls = std::make_shared<gate>();
  chaos monitors(watched, stalls);
  for (int step = 0; step < 1000; ++step) {
    if (step % 8 == 0)
      monitors.act();
    const auto with = watched.step(small_text()).summary;
    const auto without = alone.step(small_text()).summary;
    REQUIRE(with.source.step == step + 1);
    REQUIRE(with.losses[0].value == without.losses[0].value);
  }
  monitors.detach_all();
  stalls->open();
  CHECK(first_difference(watched.parameters(), alone.parameters()) == "");
}

TEST_CASE("a monitor that stalls holds up no step, and drops its own events") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  gate stalls;
  std::atomic<int> steps = 0, dropped = 0;
  std::atomic<bool> partial = false;
  auto slow = watcher_of(tensor_kind::activation, [&](const event& event) {
    stalls.wait();
    if (const auto* lost = std::get_if<dropped_event>(&event))
      dropped += static_cast<int>(lost->count);
    if (std::holds_alternative<step_event>(event))
      ++steps;
    // After a loss, an event begins with a step's ops or tensors.
    static thread_local bool after_loss = false;
    partial =
      partial || (after_loss && std::holds_alternative<step_event>(event));
    after_loss = std::holds_alternative<dropped_event>(event);
  });
  slow.limits.waiting_events = 40;
  run.attach(slow);
  for (int i = 0; i < 20; ++i)
    run.step(small_text());
  stalls.open();
  // The monitor catches up while further steps run.
  for (int i = 0; i < 2000 && dropped == 0; ++i)
    run.step(small_text());
  run.finish_monitors();
  CHECK(steps > 0);
  CHECK(dropped > 0);
  CHECK_FALSE(partial);
}

TEST_CASE("a monitor that never returns is left behind, and reported") {
  const small_case what{};
  const auto stalls = std::make_shared<gate>();
  {
    trainer run(model_for(what), options_for(what));
    auto stuck =
      watcher_of(tensor_kind::none, [stalls](const event&) { stalls->wait(); });
    stuck.limits.stuck_seconds = 0.05;
    run.attach(stuck);
    run.step(small_text());
    try {
      run.finish_monitors();
      FAIL("it returned");
    } catch (const error& reason) {
      CHECK_THAT(reason.what(), ContainsSubstring("has not returned"));
    }
    run.step(small_text());
  }
  stalls->open();
}

TEST_CASE("whatever a monitor throws ends it alone") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  const auto odd =
    run.attach(watcher_of(tensor_kind::none, [](const event&) { throw 1; }));
  std::atomic<int> calls = 0;
  const auto mute = run.attach(watcher_of(tensor_kind::none, [&](const event&) {
    ++calls;
    throw std::runtime_error("");
  }));
  for (int i = 0; i < 5; ++i)
    run.step(small_text());
  const auto ends_with = [&](std::int64_t id, const char* reason) {
    try {
      run.detach(id);
      FAIL("it went on");
    } catch (const error& failure) {
      CHECK_THAT(failure.what(), ContainsSubstring(reason));
    }
  };
  ends_with(odd, "not a std::exception");
  ends_with(mute, "without a message");
  CHECK(calls == 1);
}

TEST_CASE("a monitor can't wait for its own end") {
  const small_case what{};
  std::atomic<trainer*> run = nullptr;
  std::atomic<std::int64_t> id = 0;
  std::vector<std::string> refusals;
  std::atomic<bool> tried = false;
  auto watcher = watcher_of(tensor_kind::none, [&](const event&) {
    if (tried)
      return;
    for (const auto end : {true, false})
      try {
        end ? (*run).detach(id) : (*run).finish_monitors();
      } catch (const error& refused) {
        refusals.emplace_back(refused.what());
      }
    tried = true;
  });
  watcher.name = "quitter";
  trainer training(model_for(what), options_for(what));
  run = &training;
  id = training.attach(watcher);
  training.step(small_text());
  while (!tried)
    std::this_thread::yield();
  training.detach(id);
  REQUIRE(refusals.size() == 2);
  for (const auto& each : refusals)
    CHECK_THAT(each, ContainsSubstring("monitor quitter can't be detached by "
                                       "one of its own calls"));
}

TEST_CASE("a run ends though threads that used it live on") {
  const small_case what{};
  std::atomic<bool> used = false;
  const auto goes_on = std::make_shared<gate>();
  std::thread user;
  {
    trainer run(model_for(what), options_for(what));
    user = std::thread([&run, &used, goes_on] {
      run.step(small_text());
      used = true;
      goes_on->wait();
    });
    while (!used)
      std::this_thread::yield();
  }
  goes_on->open();
  user.join();
}

TEST_CASE("a run that is thrown away waits for its monitors' calls") {
  const small_case what{};
  std::atomic<bool> inside = false, left = false;
  std::atomic<bool> goes_on = false;
  std::thread opener;
  {
    trainer run(model_for(what), options_for(what));
    run.attach(watcher_of(tensor_kind::none, [&](const event&) {
      inside = true;
      while (!goes_on)
        std::this_thread::yield();
      left = true;
    }));
    run.step(small_text());
    while (!inside)
      std::this_thread::yield();
    opener = std::thread([&] { goes_on = true; });
  }
  CHECK(left);
  opener.join();
}

TEST_CASE(
  "a monitor that is given up learns the reason and releases its events") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  std::string reason;
  auto greedy = watcher_of(tensor_kind::activation, [](const event&) {});
  const auto tensors = std::make_shared<tensor_list>();
  greedy.see = [tensors](const event& event) {
    if (const auto* op = std::get_if<tensors_event>(&event))
      for (const auto& record : op->tensors)
        tensors->push_back(record.tensor);
  };
  greedy.limits.held_bytes = 100'000;
  greedy.given_up = [&](const std::string& why) { reason = why; };
  const std::weak_ptr<tensor_list> hoard = tensors;
  run.attach(greedy);
  greedy.see = nullptr;
  for (int i = 0; i < 2000 && hoard.use_count() > 1; ++i)
    run.step(small_text());
  CHECK(hoard.use_count() == 1);  // the test's own
  CHECK_THAT(reason, ContainsSubstring("its limit is"));
}

TEST_CASE("a monitor that hoards tensors is detached, with a message") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  auto hoard = std::make_shared<tensor_list>();
  auto greedy =
    watcher_of(tensor_kind::activation, [hoard](const event& event) {
      if (const auto* op = std::get_if<tensors_event>(&event))
        for (const auto& record : op->tensors)
          hoard->push_back(record.tensor);
    });
  greedy.limits.held_bytes = 100'000;
  bool lent = false;
  auto modest =
    watcher_of(tensor_kind::activation, [&lent](const event& event) {
      if (const auto* op = std::get_if<tensors_event>(&event))
        for (const auto& record : op->tensors)
          lent = lent || record.tensor.defined();
    });
  modest.wants.needs = tensor_needs::statistics;
  modest.limits.held_bytes = 1 << 20;  // for its own records that wait
  const auto id = run.attach(greedy);
  const auto beside = run.attach(modest);
  for (int i = 0; i < 30; ++i)
    run.step(small_text());
  run.detach(
    beside);  // the tensors of others are neither lent to it nor its own
  CHECK_FALSE(lent);
  try {
    run.detach(id);
    FAIL("it may keep what it likes");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("it holds events and tensors"));
  }
}

TEST_CASE("a monitor that is attached in a step sees whole steps") {
  const small_case what{.ranks = 2, .microbatches = 4};
  trainer run(model_for(what), options_for(what));
  std::atomic<bool> ends = false;
  std::thread steps([&] {
    while (!ends)
      run.step(small_text());
  });
  for (int i = 0; i < 30; ++i) {
    std::map<std::int64_t, int> forwards;
    std::atomic<int> step_events = 0;
    const auto id =
      run.attach(watcher_of(tensor_kind::loss, [&](const event& event) {
        if (const auto* op = std::get_if<tensors_event>(&event))
          ++forwards[op->source.step];
        else if (std::holds_alternative<step_event>(event))
          ++step_events;
      }));
    while (step_events < 3)
      std::this_thread::yield();
    run.detach(id);
    if (!forwards.empty())
      forwards.erase(std::prev(forwards.end()));  // cut off by the detach
    for (const auto& [step, count] : forwards)
      CHECK(count == 4);
  }
  ends = true;
  steps.join();
}

TEST_CASE("workers and monitors leave other threads their number of threads") {
  const auto before = at::get_num_threads();
  auto options = options_for({});
  options.execution.intra_op_threads = 3;  // differs from any machine's default
  trainer run(model_for({}), options);
  monitor watcher;
  watcher.wants.ops = true;
  std::atomic<bool> notified = false;
  watcher.see = [&](const event&) { notified = true; };
  run.attach(watcher);
  for (const auto& step : run.train(small_text(), 2))
    static_cast<void>(step);
  run.finish_monitors();
  CHECK(notified);
  int later = 0;
  std::thread([&later] { later = at::get_num_threads(); }).join();
  CHECK(later == before);
}
