// Replanning to another order of the same ops while a job runs changes no bit.
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <random>
#include <thread>

#include "../engine/transport/joined_meshes.hpp"
#include "../random_delays.hpp"
#include "../says.hpp"
#include "graph_run.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/schedules/text_form.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Schedules with the same placement, microbatches and slices.
std::vector<schedule> orders_of(const small_case& what) {
  std::vector<schedule> all;
  for (const auto* name : {"gpipe", "zb_h1", "eager_1f1b", "zb_h2", "1f1b"})
    all.push_back(make_schedule(name, shape_of(what)));
  return all;
}

parameter_list trained_without(const small_case& what, int steps) {
  auto run = trainer_for(what, nullptr);
  for (int i = 0; i < steps; ++i)
    run.step(small_text());
  return copies_of(run.parameters());
}

}  // namespace

TEST_CASE("each step runs the order that was asked for before it") {
  const small_case what{.ranks = 3, .microbatches = 7, .clip = 0.5};
  auto run = trainer_for(what, nullptr);
  std::vector<std::string> plans;
  monitor watcher;
  watcher.name = "plans";
  watcher.wants.ops = true;
  watcher.see = [&](const event& each) {
    if (const auto* ops = std::get_if<ops_event>(&each);
        ops && ops->source.rank == 0)
      plans.push_back(ops->plan->schedule_name);
  };
  run.attach(watcher);
  const auto orders = orders_of(what);
  std::vector<std::string> orders_taken;
  run.step(small_text());
  orders_taken.push_back("1f1b");
  for (const auto& order : orders) {
    run.replan(order);
    run.step(small_text());
    CHECK(run.plan().schedule_name == order.name);
    orders_taken.push_back(order.name);
  }
  run.finish_monitors();
  CHECK(plans == orders_taken);
  CHECK(first_difference(trained_without(what, 6), run.parameters()) == "");
}

TEST_CASE("the last of several wishes between two steps counts") {
  const small_case what{.data_parallel = 2};
  auto run = trainer_for(what, nullptr);
  for (const auto& order : orders_of(what))
    run.replan(order);
  run.replan(make_schedule("zb_h1", shape_of(what)));
  run.step(small_text());
  CHECK(run.plan().schedule_name == "zb_h1");
  run.evaluate(small_text(), 4);
  CHECK(first_difference(trained_without(what, 1), run.parameters()) == "");
}

TEST_CASE("a hundred orders asked for at any moment lose no step") {
  const small_case what{.ranks = 2, .microbatches = 5};
  auto run = trainer_for(what, nullptr);
  std::atomic<bool> done = false;
  std::thread other([&] {
    std::mt19937 random(5);
    const auto pause = random_delays(5);
    const auto orders = orders_of(what);
    for (int i = 0; i < 100; ++i) {
      run.replan(orders[random() % orders.size()]);
      pause();
    }
    done = true;
  });
  int steps = 0;
  for (; steps < 20 || !done; ++steps)
    run.step(small_text());
  other.join();
  CHECK(run.position() == std::int64_t{5} * steps);
  CHECK(first_difference(trained_without(what, steps), run.parameters()) == "");
}

TEST_CASE("all processes of a job take up an order at the same step") {
  for (const auto& [what, processes] :
       {std::pair{small_case{.ranks = 3, .microbatches = 6}, 3},
        std::pair{small_case{.data_parallel = 2, .clip = 0.5}, 2}}) {
    INFO(describe(what));
    constexpr int steps = 14;
    parameter_list parameters;
    std::vector<std::string> last(std::size_t(processes), "none");
    joined_meshes meshes(processes);
    const auto errors = in_all(meshes, [&](const auto& job) {
      auto run = trainer_for(what, job);
      const auto orders = orders_of(what);
      for (int i = 0; i < steps; ++i) {
        if (job->place().leads() && i % 2 == 1 && i < 2 * std::ssize(orders))
          run.replan(orders[std::size_t(i) / 2]);
        run.step(small_text());
        if (i % 5 == 0)
          run.evaluate(small_text(), 2);
      }
      last[std::size_t(job->place().process)] = run.plan().schedule_name;
      const auto all = run.gather_parameters();
      if (job->place().leads())
        parameters = copies_of(all);
      else
        run.replan(orders[0]);
    });
    CHECK(errors[0] == "");
    for (std::size_t p = 1; p < errors.size(); ++p)
      CHECK(errors[p].find("only the leading process may request")
            != std::string::npos);
    CHECK(last == std::vector<std::string>(std::size_t(processes), "1f1b"));
    CHECK(first_difference(trained_without(what, steps), parameters) == "");
  }
}

TEST_CASE("a job takes up orders that are asked for at any moment") {
  const small_case what{.ranks = 2, .microbatches = 5};
  constexpr int steps = 60;
  parameter_list parameters;
  joined_meshes meshes(2);
  const auto errors = in_all(meshes, [&](const auto& job) {
    auto run = trainer_for(what, job);
    std::jthread other;
    if (job->place().leads())
      other = std::jthread([&](const std::stop_token& end) {
        std::mt19937 random(9);
        const auto pause = random_delays(9);
        const auto orders = orders_of(what);
        while (!end.stop_requested()) {
          run.replan(orders[random() % orders.size()]);
          pause();
        }
      });
    for (int i = 0; i < steps; ++i)
      run.step(small_text());
    if (other.joinable()) {
      other.request_stop();
      other.join();
    }
    const auto all = run.gather_parameters();
    if (job->place().leads())
      parameters = copies_of(all);
  });
  CHECK(errors == std::vector<std::string>(2));
  CHECK(first_difference(trained_without(what, steps), parameters) == "");
}

namespace {

/// The second copy takes every second microbatch.
schedule mixed_copies() {
  return from_text_form(
    "troupe schedule 1\nname mix\nmicrobatches 4\nslices 1\n"
    "placement 0 1\nplacement 1 0\n"
    "rank 0: 0F0 1F1@1 1B1@1 0F2 0B0 1F3@1 1B3@1 0B2\n"
    "rank 1: 0F1@1 1F0 1B0 0F3@1 0B1@1 1F2 1B2 0B3@1\n",
    "mix");
}

}  // namespace

TEST_CASE("a microbatch stays with its copy of the stages") {
  const small_case what{.schedule = "dualpipe", .ranks = 2, .microbatches = 4};
  auto run = trainer_for(what, nullptr);
  CHECK_THROWS_MATCHES(run.replan(mixed_copies()), error,
                       says("dualpipe to mix: a microbatch uses another copy"));
}

TEST_CASE("the plain loop follows whichever copies a schedule uses") {
  const small_case what{.schedule = "dualpipe", .ranks = 2, .microbatches = 4};
  auto options = options_for(what);
  options.schedule = mixed_copies();
  trainer run(model_for(what), options);
  plain_loop oracle(model_for(what), plain_options_for(what, options.schedule));
  for (int i = 0; i < 2; ++i) {
    run.step(small_text());
    oracle.step([&](std::int64_t k) { return small_text()->at(4 * i + k); });
  }
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

TEST_CASE("an order of another shape is refused by name") {
  const small_case what{.ranks = 2, .microbatches = 4};
  auto run = trainer_for(what, nullptr);
  const auto refused = [&](const schedule& order, const std::string& why) {
    CHECK_THROWS_MATCHES(run.replan(order), error, says(why));
  };
  refused(make_schedule("gpipe", {.ranks = 2, .microbatches = 5}),
          "1f1b to gpipe: it has 5 microbatches and 1 slices, not 4 and 1");
  refused(make_schedule("gpipe", {.ranks = 4, .microbatches = 4}),
          "its stages are on other ranks");
  refused(make_schedule("two_bw", {.ranks = 2, .microbatches = 4}),
          "updates within a step");
  refused(make_schedule("forward_only", {.ranks = 2, .microbatches = 4}),
          "has no backwards");
  run.step(small_text());
  CHECK(run.plan().schedule_name == "1f1b");
  CHECK(first_difference(trained_without(what, 1), run.parameters()) == "");
}
