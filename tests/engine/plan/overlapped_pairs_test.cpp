#include "troupe/engine/plan/compile/overlapped_pairs.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/lane_builder.hpp"

using namespace troupe;
using troupe::testing::make_plan;

namespace {

using streams = std::vector<std::uint8_t>;

/// Three stages on one rank; `last_pair`: each is in a pair with both others.
plan three_stages(bool last_pair) {
  return compile(
    schedule::build({.ranks = 1, .stages_per_rank = 3, .microbatches = 3},
                    [&](lane_builder& rank) {
                      for (const auto which : {0, 1, 2})
                        rank.forward(chunk(which));
                      rank.overlap(chunk(0), chunk(2));
                      rank.forward(chunk(1));
                      rank.overlap(chunk(2), chunk(1));
                      rank.forward(chunk(0));
                      if (last_pair) {
                        rank.overlap(chunk(1), chunk(0));
                      } else {
                        rank.forward(chunk(1));
                        rank.backward(chunk(0));
                      }
                      rank.forward(chunk(2));
                      for (const auto which : {2, 1, 0})
                        rank.backward(chunk(which), first(2));
                    }));
}

}  // namespace

TEST_CASE("the partner of a pair's forward is the next compute op") {
  const auto of = make_plan("dualpipe_v", {2, 2, 4});
  std::size_t pairs = 0;
  for (std::uint32_t op = 0; op < of.ops.size(); ++op) {
    const auto partner = partner_of(of, op);
    CHECK(partner.has_value() == of.ops[op].overlaps_next);
    if (!partner)
      continue;
    ++pairs;
    CHECK(of.ops[op].kind == plan_op_kind::forward);
    CHECK(of.ops[*partner].kind == plan_op_kind::backward);
    CHECK(of.rank_of(op) == of.rank_of(*partner));
    for (auto between = op + 1; between < *partner; ++between)
      CHECK(is_transfer(of.ops[between].kind));
  }
  CHECK(pairs > 4);
}

TEST_CASE("the stages of a pair have different compute streams") {
  CHECK(compute_streams(make_plan("dualpipe_v", {2, 2, 4}))
        == streams{0, 0, 1, 1});
  CHECK(compute_streams(make_plan("dualpipe", {2, 1, 4}))
        == streams{0, 0, 1, 1});
  CHECK(compute_streams(three_stages(false)) == streams{0, 0, 1});
}

TEST_CASE("a rank has one compute stream where two don't help") {
  for (const auto* name : {"zb_v", "interleaved_1f1b", "hanayo"})
    CHECK(compute_streams(make_plan(name, {2, 2, 4})) == streams(4, 0));
  CHECK(compute_streams(three_stages(true)) == streams(3, 0));
}
