// Plans for stages that are no chain.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "../../says.hpp"
#include "support.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/lane_executor.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/plan/values.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// Each stage reads each earlier one with this probability, and always the
/// previous one.
stage_graph random_graph(std::int32_t stages, std::mt19937& random) {
  std::vector<stage_edge> edges;
  for (std::int32_t to = 1; to < stages; ++to)
    for (std::int32_t from = 0; from < to; ++from)
      if (random() % 3 == 0 || from + 1 == to)
        edges.push_back({from, to});
  return {stages, edges};
}

plan plan_of(const std::string& graph, const std::string& lanes) {
  return plan_from_text(
    "troupe plan 1\nname own\nmicrobatches 1\nslices 1\n"
    "global_norm 0\nplacement 0 1 2\n"
    + graph + lanes);
}

std::string refusal(const std::string& graph, const std::string& lanes) {
  try {
    plan_of(graph, lanes);
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

const std::string lanes =
  "rank 0: 0F0 0SEND_F0 0SEND_F0>2\n"
  "rank 1: 1RECV_F0 1F0 1SEND_F0\n"
  "rank 2: 2RECV_F0<0 2RECV_F0 2F0\n"
  "credits 1 1 1\n";

}  // namespace

TEST_CASE("every schedule is legal for every graph of its stages") {
  std::mt19937 random{3};
  for (const std::string name :
       {"gpipe", "1f1b", "eager_1f1b", "interleaved_1f1b", "breadth_first",
        "depth_first"})
    for (int i = 0; i < 20; ++i) {
      const auto looped = name == "interleaved_1f1b" || name == "depth_first"
                          || name == "breadth_first";
      const auto order = make_schedule(
        name,
        {.ranks = 4, .stages_per_rank = looped ? 2 : 1, .microbatches = 8});
      const auto graph = random_graph(order.stages(), random);
      const auto step = compile(order, {.graph = graph});
      INFO(name << " over " << to_text(graph));
      for (const auto& transport : all_transports) {
        const auto proof = verify(step, transport);
        CHECK(proof.progress);
      }
      CHECK(simulate(step, {}).makespan
            >= simulate(compile(order), {}).makespan);
      CHECK(plan_from_text(to_text(step)) == step);
    }
}

TEST_CASE("a skip is one message each way, from its giver to its reader") {
  const stage_graph graph(3, {{0, 1}, {0, 2}, {1, 2}});
  const auto step = compile(
    make_schedule("1f1b", {.ranks = 3, .microbatches = 4}), {.graph = graph});
  CHECK(step.messages.size() == 4 * 2 * 3);
  int skips = 0;
  for (const auto& each : step.messages) {
    const auto& send = step.ops[each.send];
    const auto& receive = step.ops[each.receive];
    CHECK(send.peer == receive.stage);
    CHECK(receive.peer == send.stage);
    CHECK(moved_by(send) == moved_by(receive));
    CHECK(step.ops[each.producer].stage == send.stage);
    CHECK(step.ops[each.consumer].stage == receive.stage);
    skips += send.stage == 0 && receive.stage == 2 ? 1 : 0;
  }
  CHECK(skips == 4);
  // The last stage's forward waits for both.
  for (const auto& op : step.lane(2))
    if (op.kind == plan_op_kind::forward)
      CHECK(op.dependency_count == 2);
}

TEST_CASE("a plan of a graph is a text with its edges and its peers") {
  const auto step = plan_of("edges 0>1 0>2 1>2\n", lanes);
  CHECK(to_text(step.graph) == "0>1 0>2 1>2");
  const auto text = to_text(step);
  CHECK_THAT(text, ContainsSubstring("placement 0 1 2\nedges 0>1 0>2 1>2\n"));
  CHECK_THAT(text, ContainsSubstring("2RECV_F0<0 2RECV_F0 2F0"));
  CHECK_THROWS_MATCHES(to_lowered_csv(step), error,
                       MessageMatches(ContainsSubstring("write a plan")));
}

TEST_CASE("a plan that does not fit its graph is refused, with the op") {
  CHECK_THAT(refusal("", lanes),
             ContainsSubstring("0SEND_F0>2 has no stage at its other end"));
  CHECK_THAT(refusal("edges 0>1 1>2\n", lanes),
             ContainsSubstring("0SEND_F0>2 has no stage at its other end"));
  CHECK_THAT(refusal("edges 0>2 1>2\n", lanes),
             ContainsSubstring("0SEND_F0 has no stage at its other end"));
  CHECK_THAT(refusal("edges 0>1 0>2 1>2\n",
                     "rank 0: 0F0 0SEND_F0\nrank 1: 1RECV_F0 1F0 1SEND_F0\n"
                     "rank 2: 2RECV_F0 2F0\ncredits 1 1\n"),
             ContainsSubstring("2F0 needs 2RECV_F0<0"));
  CHECK_THAT(refusal("edges 2>1\n", lanes),
             ContainsSubstring("line 7: stage 1 can't read stage 2"));
  for (const std::string edge :
       {"0-2", "0>x", "0>", ">1", "0>1>1", "0>99999999999"})
    CHECK_THAT(refusal("edges 0>1 " + edge + "\n", lanes),
               ContainsSubstring("line 7: '" + edge + "' is not an edge"));
  CHECK_THAT(
    refusal("edges 0>1 0>2 1>2\n", "rank 0: 0F0 0SEND_F0 0SEND_F0>x\n" + lanes),
    ContainsSubstring("'0SEND_F0>x': '>' is not followed by a stage"));
}

TEST_CASE("a copy's ops are its own, and closings follow what they close") {
  const auto refuses = [](const std::string& placement,
                          const std::string& lanes, const std::string& why) {
    const auto text =
      "troupe plan 1\nname x\nmicrobatches 1\nslices 1\nglobal_norm 0\n"
      + placement + lanes;
    CHECK_THROWS_MATCHES(plan_from_text(text), error, says(why));
  };
  const std::string crossed = "placement 0 1\nplacement 1 0\n";
  refuses(
    crossed, "rank 0: 0F0 1RECV_F0@1\nrank 1: 0SEND_F0@1 1F0\ncredits 1 1\n",
    "1RECV_F0@1 is in another copy than the compute ops of its microbatch");
  refuses("placement 0\nplacement 1\n", "rank 0: 0F0\nrank 1: 0B0@1\ncredits\n",
          "0B0@1 is in copy 1 of its stage, but other ops of microbatch 0 are "
          "in copy 0");
  refuses("placement 0\nplacement 1\n",
          "rank 0: 0F0 0I0\nrank 1: 0W0@1\ncredits\n",
          "0W0@1 is in copy 1 of its stage, but other ops of microbatch 0 are "
          "in copy 0");
  refuses("placement 0\n", "rank 0: 0F0 0B0 0UPDATE 0REDUCE_GRAD\ncredits\n",
          "op 3: 0REDUCE_GRAD comes after its stage's norm");
  refuses("placement 0\n", "rank 0: 0F0 0NORM 0UPDATE\ncredits\n",
          "0NORM has no use where nothing is trained");
}

TEST_CASE("a plan has the messages of the copy that a microbatch takes") {
  // Edges leave their rank in copy 1 only, which no microbatch takes.
  const auto step = plan_from_text(
    "troupe plan 1\nname x\nmicrobatches 1\nslices 1\nglobal_norm 0\n"
    "placement 0 0 0 0\nplacement 0 1 2 3\n"
    "edges 0>1 0>2 0>3 1>2 1>3 2>3\nrank 0: 0F0 1F0 2F0 3F0\n"
    "rank 1: \nrank 2: \nrank 3: \ncredits 1 1 1 1 1 1\n");
  CHECK(step.ops.size() == 4);
  CHECK(step.messages.empty());
}

TEST_CASE("a plan's errors count all ops of a lane") {
  CHECK_THROWS_MATCHES(
    plan_from_text("troupe plan 1\nname x\nmicrobatches 2\nslices 1\n"
                   "global_norm 0\nplacement 0 1\n"
                   "rank 0: 0F0 0SEND_F0 0F1 0SEND_F1 0F1\n"
                   "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1\ncredits 2\n"),
    error, says("rank 0, op 4: 0F1 appears twice"));
}

TEST_CASE("a graph of another number of stages is refused") {
  CHECK_THROWS_MATCHES(
    compile(make_schedule("1f1b", {.ranks = 3, .microbatches = 4}),
            {.graph = stage_graph::chain(4)}),
    error, MessageMatches(ContainsSubstring("the model's graph 4")));
}
