#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "../../schedules/refused.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/compile/passes.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;
using Catch::Matchers::Message;
using troupe::testing::check_refused;
using troupe::testing::refused_text;

namespace {

const refused_text deadlocks[]{
  {"0F0,0B0,1F0,1B0\n", error_code::deadlock,
   "x.csv: the lanes wait for each other: rank 0 at 0B0 waits for 1B0, which "
   "comes later on rank 0"},
  {"0F0,2F0,2B0,0B0\n3F0,1F0,1B0,3B0\n", error_code::deadlock,
   "x.csv: the lanes wait for each other: rank 0 at 2F0 waits for 1F0, which "
   "comes later on rank 1; rank 1 at 3F0 waits for 2F0, which comes later on "
   "rank 0"},
  {"2F0,0F0,0B0,2B0\n1F0,1B0\n", error_code::deadlock,
   "x.csv: the lanes wait for each other: rank 0 at 2F0 waits for 1F0, which "
   "comes later on rank 1; rank 1 at 1F0 waits for 0F0, which comes later on "
   "rank 0"},
};

const refused_text misplaced[]{
  {"0F0,0B0\n1RECV_F0,1F0,1B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0B0 needs 0RECV_B0, which does not come "
   "before it"},
  {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 2, cell 1 (rank 1): 1F0 needs 1RECV_F0, which does not come "
   "before it"},
  {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0B0 needs 0RECV_B0, which does not come "
   "before it"},
  {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0\n",
   error_code::invalid_schedule, "x.csv, line 2 (rank 1): 1SEND_B0 is missing"},
  {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0SEND_F0 appears twice; remove one"},
  {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 2, cell 2 (rank 1): 1RECV_F0 appears twice; remove one"},
  {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 0SEND_F0 comes before the op whose result "
   "it sends"},
  {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 2, cell 1 (rank 1): 1F0 needs 1RECV_F0, which does not come "
   "before it"},
  {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1SEND_F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 2, cell 3 (rank 1): 1SEND_F0 has no stage at its other end; "
   "remove it"},
  {"0F0,0SEND_F0,0RECV_B0,0B0,0SEND_B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 5 (rank 0): 0SEND_B0 has no stage at its other end; "
   "remove it"},
  {"0F0,0SEND_F0,1F0,1B0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0SEND_F0 does not leave the rank: stage 1 "
   "is on rank 0 too; remove it"},
  {"0F0,1SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 1SEND_F0 is on rank 0, but stage 1 is "
   "on rank 1"},
  {"0F0,0SEND_F1,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0SEND_F1 is outside the 2 stages, 1 "
   "microbatches, 1 slices and 1 copies"},
  {"0F0,9SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 9SEND_F0 is outside the 2 stages, 1 "
   "microbatches, 1 slices and 1 copies"},
  {"0F0,0SEND_F0,0F1,0SEND_F1\n1RECV_F1,1RECV_F0,1F0,1F1\n",
   error_code::invalid_schedule,
   "x.csv, line 2, cell 1 (rank 1): 1RECV_F1 is where rank 0 sends 0SEND_F0 to "
   "rank 1: both ends need the same order"},
  {"0F0,0SEND_F0,0RECV_B0\n1RECV_F0,1F0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0RECV_B0 receives a value that no op of "
   "its rank reads; remove it"},
  {"0F0,0SEND_F0,0RECV_B0,0RECV_B0\n1RECV_F0,1F0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 4 (rank 0): 0RECV_B0 appears twice; remove one"},
  {"0F0\n1RECV_F0,1F0\n", error_code::invalid_schedule,
   "x.csv, line 1 (rank 0): 0SEND_F0 is missing"},
  {"0UNSHARD,0F0,0RESHARD,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 4 (rank 0): 0B0 runs while its stage is sharded; "
   "UNSHARD it first"},
  {"0UNSHARD,0UNSHARD,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0UNSHARD has no effect: the stage is whole "
   "already"},
  {"0RESHARD,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 0RESHARD has no effect: the stage is "
   "sharded already"},
  {"0UNSHARD,0F0,0REDUCE_GRAD,0B0,0RESHARD\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0REDUCE_GRAD comes before 1 backwards of "
   "its stage"},
  {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 4 (rank 0): 0REDUCE_GRAD appears twice; remove one"},
  {"0F0,0B0,7REDUCE_GRAD\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 7REDUCE_GRAD is outside the 1 stages, 1 "
   "microbatches, 1 slices and 1 copies"},
  {"0OFFLOAD0,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 0OFFLOAD0 comes before the forward whose "
   "activation it copies"},
  {"0F0,0OFFLOAD0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0B0 needs its forward's activations, which "
   "are in host memory; RELOAD them first"},
  {"0F0,0RELOAD0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0RELOAD0 comes before the OFFLOAD of its "
   "activation"},
  {"0F0,0OFFLOAD0,0RELOAD0,0OFFLOAD0,0RELOAD0,0B0\n",
   error_code::invalid_schedule,
   "x.csv, line 1, cell 4 (rank 0): 0OFFLOAD0 appears twice; remove one"},
  {"0F0,0B0,0OFFLOAD0,0RELOAD0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 3 (rank 0): 0OFFLOAD0 comes after the backward of its "
   "activation"},
  {"0F0,0OFFLOAD0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 2 (rank 0): 0OFFLOAD0 has no use where nothing is "
   "trained: no op is a backward"},
  {"0F0,0OFFLOAD,0B0\n", error_code::malformed_text,
   "x.csv, line 1, cell 2 (column 5) '0OFFLOAD': a microbatch number is "
   "missing"},
  {"7UNSHARD,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 7UNSHARD is outside the 1 stages, 1 "
   "microbatches, 1 slices and 1 copies"},
  {"0RECV_F0,0F0,0B0\n", error_code::invalid_schedule,
   "x.csv, line 1, cell 1 (rank 0): 0RECV_F0 has no stage at its other end; "
   "remove it"},
  {"0SEND_F0,0F0,0B0,0REDUCE_GRAD1\n", error_code::malformed_text,
   "x.csv, line 1, cell 4 (column 18) '0REDUCE_GRAD1': '1' follows the action; "
   "remove it"},
};

}  // namespace

TEST_CASE("lanes that wait for each other are refused with the cycle") {
  check_refused(deadlocks,
                [](const char* csv) { compile(from_csv(csv, "x.csv")); });
}

TEST_CASE("a lowered CSV whose ops don't fit together is refused") {
  check_refused(misplaced,
                [](const char* csv) { from_lowered_csv(csv, "x.csv"); });
}

namespace {

// The text form of two stages on two ranks with these lanes.
std::string plan_text(const std::string& first, const std::string& second) {
  return "troupe plan 1\nname x\nmicrobatches 1\nslices 1\nglobal_norm 0\n"
         "placement 0 1\nrank 0: "
         + first + "\nrank 1: " + second + "\ncredits 1 1\n";
}

void check_refused_plan(const std::string& first, const std::string& second,
                        const std::string& reason) {
  try {
    plan_from_text(plan_text(first, second), "x");
    FAIL_CHECK("was accepted: " << reason);
  } catch (const error& refusal) {
    CHECK(refusal.code() == error_code::invalid_schedule);
    CHECK(std::string{refusal.what()} == reason);
  }
}

}  // namespace

TEST_CASE("a plan's text whose ops don't fit together is refused") {
  const std::string first = "0F0 0SEND_F0 0RECV_B0 0B0 0NORM 0UPDATE";
  const std::string second = "1RECV_F0 1F0 1B0 1SEND_B0 1NORM 1UPDATE";
  CHECK_NOTHROW(plan_from_text(plan_text(first, second), "x"));
  check_refused_plan("0F0 0SEND_F0 0RECV_B0", "1RECV_F0 1F0",
                     "x, rank 0, op 2: 0RECV_B0 receives a value that no op of "
                     "its rank reads; remove it");
  check_refused_plan(first + " 0UPDATE", second,
                     "x, rank 0, op 6: 0UPDATE appears twice; remove one");
  check_refused_plan("0F0 0SEND_F0 0RECV_B0.1 0B0 0NORM 0UPDATE", second,
                     "x, rank 0, op 2: 0RECV_B0.1 is outside the 2 stages, 1 "
                     "microbatches, 1 slices and 1 copies");
  check_refused_plan(
    first, "1RECV_F0 1F0 1NORM 1B0 1SEND_B0 1UPDATE",
    "x, rank 1, op 2: 1NORM comes before 1 backwards of its stage");
}

TEST_CASE("a transfer's arrow points to its receiver") {
  const std::string arrows =
    "a SEND takes '>' and the stage that receives, a RECV '<' and the stage "
    "that sends";
  CHECK_THROWS_MATCHES(
    plan_from_text(plan_text("0SEND_F0<1", "1RECV_F0 1F0"), "x"), error,
    Message("x, line 7: '0SEND_F0<1': " + arrows));
  CHECK_THROWS_MATCHES(
    plan_from_text(plan_text("0F0 0SEND_F0>1", "1RECV_F0>0 1F0"), "x"), error,
    Message("x, line 8: '1RECV_F0>0': " + arrows));
}

TEST_CASE("a plan of too many dependencies is refused") {
  auto built = from_lowered_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n");
  const auto count = built.dependencies.size();
  const auto connect_again = [&](std::size_t most) {
    built.messages.clear();
    built.channels.clear();
    built.dependencies.clear();
    for (auto& op : built.ops)
      op.message = none;
    connect(built, most);
  };
  CHECK_NOTHROW(connect_again(count));
  CHECK_THROWS_MATCHES(
    connect_again(count - 1), error,
    Message("CSV: the ops have more than 2 dependencies; use fewer edges or "
            "microbatches"));
}

TEST_CASE("ops without their other end can't be connected") {
  auto built = from_lowered_csv("0F0,0SEND_F0\n1RECV_F0,1F0\n");
  SECTION("a send") {
    built.ops[1].kind = plan_op_kind::receive;
  }
  SECTION("a receive") {
    built.ops[2].kind = plan_op_kind::forward;
  }
  built.messages.clear();
  built.channels.clear();
  for (auto& op : built.ops)
    op.message = none;
  CHECK_THROWS_AS(connect(built), error);
}

TEST_CASE("only compute ops overlap, and a stage has at most two copies") {
  const auto refusal = [](const std::string& placements,
                          const std::string& lane) -> std::string {
    try {
      plan_from_text(
        "troupe plan 1\nname own\nmicrobatches 1\nslices 1\n"
        "global_norm 0\n"
        + placements + "rank 0: " + lane + "\ncredits\n");
    } catch (const error& reason) {
      return reason.what();
    }
    return "none";
  };
  CHECK(refusal("placement 0\n", "0F0 0B0 0NORM 0UPDATE") == "none");
  CHECK(refusal("placement 0\n", "0F0 0B0 0NORM 0UPDATE+")
        == "text, line 7: '0UPDATE+': only a compute op overlaps another");
  std::string many;
  for (int i = 0; i < 128; ++i)
    many += "placement 0\n";
  CHECK(refusal(many, "0F0 0B0 0NORM 0UPDATE")
        == "text, line 8: a stage has at most two copies");
}
