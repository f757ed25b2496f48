#include "troupe/engine/plan/compile/part.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using testing::lane_text;

namespace {

std::string op_at(const plan& of, std::uint32_t at) {
  return to_text(of, of.ops[at]);
}

/// The dependencies of the whole's op that are in the part too.
void check_dependencies(const plan& part, const plan& whole) {
  for (const auto& op : part.ops) {
    std::vector<std::string> actual, expected;
    for (const auto at : part.dependencies_of(op))
      actual.push_back(op_at(part, at));
    for (const auto& other : whole.ops)
      if (to_text(whole, other) == to_text(part, op))
        for (const auto at : whole.dependencies_of(other))
          for (const auto& candidate : part.ops)
            if (op_at(whole, at) == to_text(part, candidate))
              expected.push_back(op_at(whole, at));
    CHECK(actual == expected);
  }
}

}  // namespace

TEST_CASE("a step's plan is cut where its gradients are there") {
  const auto whole =
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 2}),
            {.data_parallel = 2, .global_norm = true});
  const auto gradients = gradients_of(whole);
  const auto update = update_of(whole);
  for (std::int32_t rank = 0; rank < 2; ++rank)
    CHECK(lane_text(gradients, rank) + " " + lane_text(update, rank)
          == lane_text(whole, rank));
  CHECK(update.ops.size() == 4);
  CHECK(update.messages.empty());
  CHECK(update.channels.empty());
  CHECK(update.global_norm);
  CHECK_FALSE(gradients.global_norm);
}

TEST_CASE("the parts of a plan refer to their own ops, and make progress") {
  for (const std::string name : {"gpipe", "1f1b", "interleaved_1f1b"}) {
    const auto whole =
      compile(make_schedule(name, {.ranks = 2,
                                   .stages_per_rank = name.size() > 5 ? 2 : 1,
                                   .microbatches = 4}),
              {.data_parallel = 2, .global_norm = true});
    const auto gradients = gradients_of(whole);
    const auto update = update_of(whole);
    check_dependencies(gradients, whole);
    check_dependencies(update, whole);
    REQUIRE(gradients.messages.size() == whole.messages.size());
    CHECK(gradients.channels == whole.channels);
    for (std::size_t i = 0; i < whole.messages.size(); ++i) {
      const auto& a = gradients.messages[i];
      const auto& b = whole.messages[i];
      CHECK(op_at(gradients, a.producer) == op_at(whole, b.producer));
      CHECK(op_at(gradients, a.send) == op_at(whole, b.send));
      CHECK(op_at(gradients, a.receive) == op_at(whole, b.receive));
      CHECK(op_at(gradients, a.consumer) == op_at(whole, b.consumer));
    }
    CHECK(verify(gradients, {transport_kind::credited}).progress);
    CHECK(verify(update).progress);
  }
}

TEST_CASE("a plan's compute ops are the schedule that it was compiled from") {
  for (const std::string name : {"gpipe", "1f1b", "forward_only"}) {
    const auto lanes = make_schedule(name, {.ranks = 3, .microbatches = 4});
    CHECK(schedule_of(compile(lanes, {.data_parallel = 2})) == lanes);
  }
}
