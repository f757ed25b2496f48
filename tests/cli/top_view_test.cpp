#include "troupe/cli/live/top_view.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sstream>

#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr std::int64_t ms = 1'000'000;

nlohmann::json info_of_job() {
  return {{"schedule", "1f1b"}, {"ranks", 2},    {"stages", 2},
          {"microbatches", 2},  {"messages", 4}, {"steps", 9},
          {"step", 3},          {"pid", 17}};
}

event_source of_rank(std::int32_t rank) {
  event_source source;
  source.step = 4;
  source.rank = rank;
  return source;
}

/// Both ranks ran a 30 ms op within a step of 100 ms.
void end_one_step(cli::top_view& view) {
  for (const std::int32_t rank : {1, 0})
    view.add(ops_event{of_rank(rank), {{0, 0, 0, 10 * ms, 40 * ms}}});
  step_event step;
  step.source.step = 4;
  step.end = 100 * ms;
  CHECK(view.add(step));
}

}  // namespace

TEST_CASE("top shows messages in flight, waits and memory by rank") {
  cli::top_view view(info_of_job(), std::nullopt);
  CHECK_THAT(view.text(false), ContainsSubstring("step 3: waiting"));
  // Messages sent at 10, 20 and 30 ms and taken at 25, 40 and 50: at most two
  // at a time.
  view.add(messages_event{
    of_rank(1),
    {{.message = 0, .bytes = 1 << 20, .sent = 10 * ms, .taken = 25 * ms},
     {.message = 1,
      .bytes = 1 << 19,
      .sent = 20 * ms,
      .taken = 40 * ms,
      .wait = 2 * ms}}});
  view.add(messages_event{of_rank(0),
                          {{.message = 2,
                            .bytes = 1 << 18,
                            .sent = 30 * ms,
                            .taken = 50 * ms,
                            .wait = 1'500'000}}});
  view.add(memory_event{of_rank(0), 300 << 20, 0, 0});
  view.add(memory_event{of_rank(1), 200 << 20, 0, 0});
  end_one_step(view);
  const auto text = view.text(false);
  CHECK_THAT(text, ContainsSubstring("at most 2\nmessages in flight"));
  CHECK_THAT(text, ContainsSubstring("recv MiB  wait ms    MiB\n")
                     && ContainsSubstring("    0.25    1.500    300\n")
                     && ContainsSubstring("    1.50    2.000    200\n"));
}

TEST_CASE("top fits 80 columns, and tells how long a rank was idle") {
  const auto of =
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 2}), {});
  auto info = info_of_job();
  info["schedule"] = "a schedule whose name goes on and on for quite a while";
  cli::top_view view(info, of);
  for (const std::int32_t rank : {0, 1}) {
    ops_event ran{of_rank(rank), {}};
    const auto r = static_cast<std::size_t>(rank);
    for (auto i = of.first_op[r]; i < of.first_op[r + 1]; ++i)
      ran.ops.push_back({i, 0, 0, 10 * ms, 40 * ms});
    view.add(ran);
  }
  step_event step;
  step.source.step = 123456789;
  step.losses = {{"loss", 1.25, 1}};
  step.end = 100 * ms;
  CHECK(view.add(step));
  for (const bool bars : {false, true}) {
    std::istringstream lines(view.text(bars));
    for (std::string line; std::getline(lines, line);) {
      INFO(line);
      CHECK(
        std::ranges::count_if(line, [](char c) { return (c & 0xc0) != 0x80; })
        <= 80);
    }
  }
  // Not the ops of norm and optimizer, which are last in every step.
  CHECK_THAT(view.text(false), ContainsSubstring("     0B1   60.00"));
}

TEST_CASE("top's columns are those of the last step alone") {
  cli::top_view view(info_of_job(), std::nullopt);
  view.add(messages_event{of_rank(1), {{.bytes = 1 << 20, .wait = ms}}});
  end_one_step(view);
  end_one_step(view);
  CHECK_THAT(view.text(false),
             ContainsSubstring("at most 0\nmessages in flight")
               && ContainsSubstring("    0.00    0.000      0\n")
               && !ContainsSubstring("    1.00    1.000"));
}

TEST_CASE("top shows no step again that a job that heals repeats") {
  cli::top_view view(info_of_job(), std::nullopt);
  end_one_step(view);
  view.go_on_with(info_of_job());
  const auto add_step = [&](std::int64_t number) {
    for (const std::int32_t rank : {1, 0}) {
      auto source = of_rank(rank);
      source.step = number;
      view.add(ops_event{source, {{0, 0, 0, 10 * ms, 40 * ms}}});
    }
    step_event step;
    step.source.step = number;
    step.end = 100 * ms;
    return view.add(step);
  };
  CHECK_FALSE(add_step(4));
  CHECK(add_step(5));
}
