#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "../engine/transport/joined_meshes.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/schedules/forward_part.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// The parameters after so many steps of an uninterrupted run.
parameter_list after(std::int64_t steps) {
  trainer run(model_for({}), options_for({}));
  for (const auto& step : run.train(small_text(), steps))
    CHECK(step.updated);
  parameter_list all;
  for (const auto& [name, value] : run.parameters())
    all.emplace_back(name, value.clone());
  return all;
}

/// Throws in step 3.
template <class End>
monitor ender() {
  monitor result;
  result.name = "ender";
  result.see = [](const event& event) {
    if (const auto* step = std::get_if<step_event>(&event);
        step && step->source.step == 3)
      throw End("seen enough");
  };
  return result;
}

constexpr auto many = 1'000'000;

}  // namespace

TEST_CASE("a run that is stopped ends with a step, whose parameters it holds") {
  trainer run(model_for({}), options_for({}));
  std::int64_t last = 0;
  for (const auto& step : run.train(small_text(), many)) {
    last = step.source.step;
    if (last == 3)
      run.stop("enough");
  }
  REQUIRE(run.ended());
  CHECK(run.ended()->why == run_end::kind::asked);
  CHECK(run.ended()->reason == "enough after step " + std::to_string(last));
  CHECK(last <= 4);
  CHECK(first_difference(run.parameters(), after(last)) == "");
  CHECK_THROWS_MATCHES(run.step(small_text()), error,
                       MessageMatches(ContainsSubstring("enough after step")));
}

TEST_CASE("a run that may take any time to stop is not interrupted") {
  trainer run(model_for({}), options_for({}));
  run.step(small_text());
  run.stop("enough", std::numeric_limits<double>::infinity());
  run.step(small_text());
  REQUIRE(run.ended());
  CHECK(run.ended()->reason == "enough after step 2");
}

TEST_CASE("a monitor ends a run as a success") {
  trainer run(model_for({}), options_for({}));
  auto watcher = ender<end_training>();
  bool finished = false;
  watcher.finish = [&] { finished = true; };
  run.attach(watcher);
  std::int64_t last = 0;
  for (const auto& step : run.train(small_text(), many))
    last = step.source.step;
  REQUIRE(run.ended());
  CHECK(run.ended()->why == run_end::kind::success);
  CHECK_THAT(run.ended()->reason,
             ContainsSubstring("monitor ender: seen enough after step "));
  CHECK(first_difference(run.parameters(), after(last)) == "");
  run.finish_monitors();
  CHECK(finished);
}

TEST_CASE("a trainer that ends finishes its monitors") {
  std::int64_t last_step = 0;
  bool finished = false;
  {
    trainer run(model_for({}), options_for({}));
    monitor counter;
    counter.name = "counter";
    counter.wants.steps = true;
    counter.see = [&](const event&) { ++last_step; };
    counter.finish = [&] { finished = true; };
    run.attach(counter);
    for (int i = 0; i < 5; ++i)
      run.step(small_text());
  }
  CHECK(last_step == 5);
  CHECK(finished);
}

TEST_CASE("a monitor that is detached sees all of the step that runs") {
  trainer run(model_for({}), options_for({}));
  std::atomic<std::int64_t> tensors = 0, steps = 0;
  std::int64_t all = 0;
  const auto counter = [&] {
    monitor result;
    result.name = "counter";
    result.wants.tensors = tensor_kind::activation | tensor_kind::gradient;
    result.wants.steps = true;
    result.see = [&](const event& what) {
      if (std::holds_alternative<tensors_event>(what))
        ++tensors;
      else
        ++steps;
    };
    return result;
  };
  auto id = run.attach(counter());
  run.step(small_text());
  run.detach(id);
  all = tensors.exchange(0);
  CHECK(all > 8);
  CHECK(steps.exchange(0) == 1);
  CHECK_THROWS_MATCHES(run.detach(id), error,
                       MessageMatches(ContainsSubstring(
                         "no monitor " + std::to_string(id) + " is attached")));
  // During a step: from within the data source, and from another thread.
  id = run.attach(counter());
  std::thread other;
  const auto text = small_text();
  run.step(make_source([&](std::int64_t index) {
    if (index % 4 == 3)
      other = std::thread([&] { run.detach(id); });
    return text->at(index);
  }));
  other.join();
  CHECK(tensors == all);
  CHECK(steps == 1);
}

TEST_CASE("after a success, steps and evaluations run without haste") {
  auto options = options_for({});
  options.execution.limits.finish = 0.5;
  trainer run(model_for({}), options);
  run.attach(ender<end_training>());
  for (const auto& step : run.train(small_text(), many))
    CHECK(step.updated);
  const auto end = run.ended().value().reason;
  const auto whole = run.evaluate(small_text(), 16);
  CHECK(whole.tokens
        == trainer(model_for({}), options_for({}))
             .evaluate(small_text(), 16)
             .tokens);
  const auto begun = std::chrono::steady_clock::now();
  const auto slow = make_source([begun](std::int64_t index) {
    while (std::chrono::steady_clock::now() < begun + std::chrono::seconds(1))
      std::this_thread::yield();
    return small_text()->at(index);
  });
  run.step(slow);
  CHECK(run.ended().value().reason == end);
}

TEST_CASE("a monitor fails a run with a step, whose parameters it holds") {
  trainer run(model_for({}), options_for({}));
  run.attach(ender<stop_training>());
  std::int64_t last = 0;
  const auto train = [&] {
    for (const auto& step : run.train(small_text(), many))
      last = step.source.step;
  };
  CHECK_THROWS_MATCHES(
    train(), error,
    MessageMatches(ContainsSubstring("monitor ender: seen enough")));
  REQUIRE(run.ended());
  CHECK(run.ended()->why == run_end::kind::failed);
  CHECK(first_difference(run.parameters(), after(last)) == "");
  run.finish_monitors();  // the error was thrown already
}

TEST_CASE("a step that lasts too long for a stop is interrupted") {
  const auto stuck = std::make_shared<std::atomic<bool>>(true);
  auto options = options_for({});
  options.execution.limits.finish = 0.1;
  trainer run(model_for({}), options);
  const auto source = make_source([stuck](std::int64_t) -> microbatch_data {
    while (*stuck)
      std::this_thread::yield();
    return small_text()->at(0);
  });
  run.stop("enough");
  CHECK_THROWS_MATCHES(run.step(source), error,
                       MessageMatches(ContainsSubstring("enough at step 1")));
  CHECK_FALSE(run.ended());
  *stuck = false;
}

TEST_CASE("an interrupted step leaves the parameters of the step before") {
  auto options = options_for({});
  options.execution.limits.finish = 0.1;
  trainer run(model_for({}), options);
  for (const auto& step : run.train(small_text(), 2))
    CHECK(step.updated);
  CHECK(run.loses_last_step(0).empty());
  const auto stuck = std::make_shared<std::atomic<bool>>(true);
  const auto source = make_source([stuck](std::int64_t index) {
    while (*stuck)
      std::this_thread::yield();
    return small_text()->at(index);
  });
  run.stop("enough");
  CHECK_THROWS_AS(run.step(source), error);
  CHECK(run.loses_last_step(0).empty());
  *stuck = false;
  CHECK(run.progress().step == 2);
  CHECK(first_difference(run.parameters(), after(2)) == "");
}

TEST_CASE("all processes of a job are asked to save after the same step") {
  for (const std::int32_t asker : {0, 1}) {
    joined_meshes meshes(2);
    std::array<std::vector<std::int64_t>, 2> saved;
    for (const auto& problem : in_all(meshes, [&](const auto& job) {
           const auto here = job->place().process;
           auto run = trainer_for({}, job);
           for (const auto& step : run.train(small_text(), 12)) {
             if (step.source.step == 3 && here == asker)
               run.request_save();
             if (run.take_save_request())
               saved.at(static_cast<std::size_t>(here))
                 .push_back(step.source.step);
           }
         }))
      CHECK(problem == "");
    CHECK(saved[0].size() == 1);
    CHECK(saved[0] == saved[1]);
  }
}

TEST_CASE("all processes of a job end with the same step") {
  for (const std::int32_t stopper : {0, 1}) {
    joined_meshes meshes(2);
    std::array<std::int64_t, 2> last{};
    for (const auto& problem : in_all(meshes, [&](const auto& job) {
           const auto here = job->place().process;
           auto run = trainer_for({}, job);
           auto& mine = last.at(static_cast<std::size_t>(here));
           for (const auto& step : run.train(small_text(), many)) {
             mine = step.source.step;
             if (mine == 3 && here == stopper)
               run.stop("enough");
           }
           expect(run.ended().has_value(), "the run has ended");
           expect(run.ended()->reason.find("enough after") != std::string::npos,
                  "the end has its reason");
           const auto all = run.gather_parameters();
           if (here == 0)
             expect(first_difference(all, after(mine)) == "",
                    "the parameters are those of the last step");
         }))
      CHECK(problem == "");
    CHECK(last[0] == last[1]);
  }
}

TEST_CASE("limits and schedules that can't be are refused by name") {
  const small_case what{};
  const auto refused = [&](const std::function<void(trainer_options&)>& set,
                           const std::string& why) {
    auto options = options_for(what);
    set(options);
    CHECK_THROWS_MATCHES(
      trainer(model_for(what), options), error,
      Catch::Matchers::MessageMatches(ContainsSubstring(why)));
  };
  refused([](auto& o) { o.execution.limits.leave = -1; }, "limits.leave is -1");
  refused([](auto& o) { o.execution.limits.stall = NAN; },
          "limits.stall is nan");
  refused([](auto& o) { o.execution.intra_op_threads = 100'000; },
          "use 1 to 1024 threads");
  refused([](auto& o) { o.schedule = {}; }, "have no schedule");
  refused(
    [](auto& o) {
      o.schedule = forward_part(o.schedule);
      o.schedule.name = "";
    },
    "schedule without a name has no backwards");
  refused(
    [](auto& o) {
      o.numerics.loss_scale.dynamic = true;
      o.numerics.loss_scale.smallest = 1e9;
    },
    "below the smallest one, 1000000000");
}

TEST_CASE("the exception of a user's code is nested in the step's error") {
  struct own_error : std::runtime_error {
    using std::runtime_error::runtime_error;
    int number = 7;
  };
  const small_case what{};
  auto options = options_for(what);
  options.numerics.loss = [](const auto&,
                             const auto&) -> std::vector<loss_term> {
    throw own_error("the label is missing");
  };
  trainer run(model_for(what), options);
  try {
    run.step(small_text());
    FAIL("it went on");
  } catch (const error& failure) {
    CHECK(failure.code() == error_code::op_failed);
    CHECK_THAT(failure.what(), ContainsSubstring("the label is missing"));
    try {
      std::rethrow_if_nested(failure);
      FAIL("nothing is nested");
    } catch (const own_error& cause) {
      CHECK(cause.number == 7);
    }
  }
}
