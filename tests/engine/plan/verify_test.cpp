#include "troupe/engine/plan/check/verify.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/wait_graph.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/lane_builder.hpp"
#include "troupe/schedules/text_form.hpp"

using namespace troupe;

namespace {

const std::string progress = "makes progress, as every op completes";

constexpr transport_model buffered{transport_kind::buffered};
constexpr transport_model buffered_shared{transport_kind::buffered, true};
constexpr transport_model credited{transport_kind::credited};
constexpr transport_model rendezvous{transport_kind::rendezvous};

plan read(const char* csv) {
  return from_lowered_csv(csv);
}

// Rank 0 posts the gradient's receive before it sends what the gradient
// needs.
constexpr auto early_receive =
  "0F0,0RECV_B0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";

// Both ranks send before they receive.
constexpr auto head_to_head =
  "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
  "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n";

}  // namespace

TEST_CASE("a receive posted early blocks a shared FIFO and a rendezvous") {
  const auto of = read(early_receive);
  CHECK(verify(of, buffered).text() == progress);
  CHECK(verify(of, credited).text() == progress);
  CHECK(verify(of, buffered_shared).text()
        == "deadlock: rank 1 at 1F0 waits for 0SEND_F0 of rank 0, which is "
           "behind 0RECV_B0 in its FIFO; rank 0 at 0B0 waits for 1SEND_B0 of "
           "rank 1");
  CHECK(verify(of, rendezvous).text()
        == "deadlock: rank 0 at 0RECV_B0 waits for 1SEND_B0 of rank 1; rank 1 "
           "at 1RECV_F0 waits for 0SEND_F0 of rank 0");
}

TEST_CASE("two ranks that both send first need buffers") {
  const auto of = read(head_to_head);
  CHECK(verify(of, buffered).text() == progress);
  CHECK(verify(of, buffered_shared).text() == progress);
  CHECK(verify(of, credited).text() == progress);
  CHECK(verify(of, rendezvous).text()
        == "deadlock: rank 0 at 0SEND_F1 waits for 1RECV_F1 of rank 1; rank 1 "
           "at 1SEND_B0 waits for 0RECV_B0 of rank 0");
}

TEST_CASE("too few credits stop a lane, and the sentence says who has them") {
  auto of = compile(schedule::build(
                      {.ranks = 2, .microbatches = 2},
                      [](lane_builder& rank) {
                        rank.forward(rest());
                        rank.backward(rest());
                      },
                      "gpipe"),
                    {.credits = 1});
  CHECK(verify(of, credited).text() == progress);
  // Rank 1 needs both activations before it frees the first one.
  const auto two = compile(
    from_text_form("troupe schedule 1\nname late\nmicrobatches 2\nslices 1\n"
                   "placement 0 1 0\nrank 0: 0F0 0F1 2F1 2F0 2B0 2B1 0B0 0B1\n"
                   "rank 1: 1F1 1F0 1B0 1B1\n",
                   "x"),
    {.credits = 1});
  CHECK(verify(two, buffered).text() == progress);
  CHECK(verify(two, credited).text()
        == "deadlock: rank 1 at 1F1 waits for 0SEND_F1 of rank 0; rank 0 at "
           "0SEND_F1 waits for a credit from rank 0 to 1, held by 0F0, which "
           "rank "
           "1 has not consumed");
}

TEST_CASE("with the credits that the plan computed, sends never wait") {
  const auto of =
    testing::make_plan("eager_1f1b", {.ranks = 4, .microbatches = 9});
  CHECK(verify(of, credited).progress);
}

TEST_CASE("verify takes slices and two directions") {
  const auto slices = compile(from_text_form(
    "troupe schedule 1\nname s\nmicrobatches 1\nslices 2\nplacement 0 1\n"
    "rank 0: 0F0.0 0F0.1 0B0.1 0B0.0\nrank 1: 1F0.0 1F0.1 1B0.1 1B0.0\n",
    "x"));
  const auto copies = compile(
    from_text_form("troupe schedule 1\nname c\nmicrobatches 2\nslices 1\n"
                   "placement 0 1\nplacement 1 0\n"
                   "rank 0: 0F0 1F1@1 1B1@1 0B0\nrank 1: 0F1@1 1F0 1B0 0B1@1\n",
                   "x"));
  for (const auto& model : testing::all_transports) {
    CHECK(verify(slices, model).text() == progress);
    CHECK(verify(copies, model).text() == progress);
  }
}

TEST_CASE("the smallest cycle of waits is found") {
  using waits = std::vector<std::vector<wait_edge>>;
  CHECK(smallest_cycle(waits{{}, {{0}}, {{1}}}).empty());
  CHECK(smallest_cycle(waits{{{1}}, {{2}}, {{0}}, {{4}}, {{3}}, {{3}}})
        == std::vector{3, 4});
  CHECK(smallest_cycle(waits{{{2}}, {{0}}, {{1}}}) == std::vector{0, 2, 1});
  CHECK(smallest_cycle(waits{{{0}}}) == std::vector{0});
}

TEST_CASE("the smallest cycle is found where nodes wait for several") {
  using several = std::vector<std::vector<wait_edge>>;
  CHECK(smallest_cycle(several{}).empty());
  CHECK(smallest_cycle(several{{{1}}, {}}).empty());
  // 0 > 1 > 2 > 0, but also 1 > 0.
  CHECK(smallest_cycle(several{{{1}}, {{2}, {0}}, {{0}}}) == std::vector{0, 1});
  // Four edges, two of which add nothing, are shorter than three that do.
  CHECK(
    smallest_cycle(several{{{1}, {3}}, {{2}}, {{0}}, {{4, 0}}, {{5}}, {{0, 0}}})
    == std::vector{0, 3, 4, 5});
  CHECK(smallest_cycle(several{{}, {{1}}}) == std::vector{1});
}

TEST_CASE("the cycle is the smallest of all inputs that an op waits for") {
  // Stage 3 reads stages 1 and 2. Rank 1 wants a gradient of microbatch 0 from
  // rank 3, which wants microbatch 1 of it before; rank 0 waits for both.
  const auto of = plan_from_text(
    "troupe plan 1\nname diamond\nmicrobatches 2\nslices 1\nglobal_norm 0\n"
    "placement 0 1 2 3\nedges 0>1 0>2 1>3 2>3\n"
    "rank 0: 0F0 0SEND_F0 0SEND_F0>2 0F1 0SEND_F1 0SEND_F1>2 0RECV_B0 "
    "0RECV_B0<2 0B0 0RECV_B1 0RECV_B1<2 0B1 0NORM 0UPDATE\n"
    "rank 1: 1RECV_F0 1F0 1SEND_F0>3 1RECV_B0<3 1B0 1SEND_B0 1RECV_F1 1F1 "
    "1SEND_F1>3 1RECV_B1<3 1B1 1SEND_B1 1NORM 1UPDATE\n"
    "rank 2: 2RECV_F0<0 2F0 2SEND_F0 2RECV_F1<0 2F1 2SEND_F1 2RECV_B0 2B0 "
    "2SEND_B0>0 2RECV_B1 2B1 2SEND_B1>0 2NORM 2UPDATE\n"
    "rank 3: 3RECV_F0 3RECV_F0<1 3F0 3RECV_F1 3RECV_F1<1 3F1 3B0 "
    "3SEND_B0 3SEND_B0>1 3B1 3SEND_B1 3SEND_B1>1 3NORM 3UPDATE\n"
    "credits 2 2 2 2 2 2 2 2\n",
    "x");
  const auto verdict = verify(of, buffered);
  CHECK(verdict.text()
        == "deadlock: rank 1 at 1B0 waits for 3SEND_B0>1 of rank 3; rank 3 at "
           "3F1 waits for 1SEND_F1>3 of rank 1");
  REQUIRE(verdict.cycle.size() == 2);
  CHECK(verdict.cycle[0].rank == 1);
  CHECK(of.rank_of(verdict.cycle[0].for_op) == 3);
  CHECK(of.rank_of(verdict.cycle[1].for_op) == 1);
}

TEST_CASE("a verdict tells where the lanes stand and what they have posted") {
  const auto of = read(early_receive);
  const auto verdict = verify(of, buffered_shared);
  REQUIRE_FALSE(verdict.progress);
  const auto names = [&](const std::vector<std::uint32_t>& ops) {
    std::vector<std::string> texts;
    for (const auto op : ops)
      texts.push_back(to_text(of, op));
    return texts;
  };
  CHECK(names(verdict.stands_at) == std::vector<std::string>{"0B0", "1F0"});
  CHECK(names(verdict.posted)
        == std::vector<std::string>{"0RECV_B0", "0SEND_F0", "1RECV_F0"});
  CHECK(verify(of, buffered).stands_at.empty());
}

TEST_CASE("lanes that can't be compiled have a cycle too") {
  const auto lanes =
    from_csv("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n2F0,2F1,2B0,2B1\n");
  CHECK_THROWS(compile(lanes));
  const auto of = lane_plan(lanes);
  CHECK(verify(of).text()
        == "deadlock: rank 0 at 0B0 waits for 1B0 of rank 1; rank 1 at 1F1 "
           "waits for 0F1 of rank 0");
  for (const auto& row : builtin_schedules()) {
    CAPTURE(row.name);
    const schedule_shape shape{
      .ranks = 4,
      .stages_per_rank = row.stages_per_rank.most == 1 ? 1 : 2,
      .microbatches = 8};
    CHECK(verify(lane_plan(make_schedule(row.name, shape))).progress);
  }
}

TEST_CASE("transports have names") {
  CHECK(parse_transport("credited") == transport_kind::credited);
  CHECK_THROWS_MATCHES(parse_transport("telepathy"), error,
                       Catch::Matchers::Message(
                         "unknown transport 'telepathy': known transports are "
                         "buffered, credited, rendezvous"));
}
