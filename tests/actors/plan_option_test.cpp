// Plans that another program wrote, or that were edited by hand.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::shared_ptr<const plan> plan_of(const std::string& lanes,
                                    int global_norm = 0) {
  return std::make_shared<const plan>(
    plan_from_text("troupe plan 1\nname own\nmicrobatches 2\nslices 1\n"
                   "global_norm "
                   + std::to_string(global_norm) + "\nplacement 0 1\n" + lanes
                   + "credits 2 2\n"));
}

/// 1f1b, but the receives stand first, and rank 1 forwards both microbatches
/// before it sends a gradient.
const std::string edited =
  "rank 0: 0RECV_B0 0RECV_B1 0F0 0SEND_F0 0F1 0SEND_F1 0B0 0B1 0NORM 0UPDATE\n"
  "rank 1: 1RECV_F0 1RECV_F1 1F0 1F1 1B0 1B1 1SEND_B0 1SEND_B1 1NORM "
  "1UPDATE\n";

std::string executed_by(const step_report& report, const plan& of,
                        std::size_t rank) {
  std::string text;
  for (const auto& op : report.ops[rank].ops)
    text += (text.empty() ? "" : " ") + to_text(of, op.op);
  return text;
}

trainer_options options_with(std::shared_ptr<const plan> plan_option,
                             const small_case& what = {.microbatches = 2}) {
  auto options = options_for(what);
  options.schedule = {};
  options.plan = std::move(plan_option);
  return options;
}

std::string refusal_of(const trainer_options& options) {
  try {
    const trainer run(model_for({}), options);
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a given plan runs as it is, with the bits of the plain loop") {
  const small_case what{.microbatches = 2};
  trainer run(model_for(what), options_with(plan_of(edited)));
  plain_loop oracle(model_for(what), plain_options_for(what));
  const auto text = small_text();
  for (int i = 0; i < 3; ++i) {
    const auto report = run.step(text);
    CHECK("rank 0: " + executed_by(report, run.plan(), 0)
            + "\nrank 1: " + executed_by(report, run.plan(), 1) + "\n"
          == edited);
    oracle.step([&](std::int64_t k) { return text->at(2 * i + k); });
  }
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
  CHECK(run.evaluate(text, 4).losses.size() == 1);
}

namespace {

/// Whether no compute op runs between a reduction and the norm of its stage,
/// which marks the reduction's end.
bool is_alone(const std::vector<op_record>& ops, const plan& of) {
  for (std::size_t i = 0; i + 1 < ops.size(); ++i) {
    if (of.ops[ops[i].op].kind != plan_op_kind::reduce)
      continue;
    const auto& norm = *std::ranges::find_if(ops, [&](const op_record& each) {
      return of.ops[each.op].kind == plan_op_kind::gradient_norm
             && of.ops[each.op].stage == of.ops[ops[i].op].stage;
    });
    for (const auto& each : ops)
      if (is_compute(of.ops[each.op].kind) && each.sequence > ops[i].sequence
          && each.begin < norm.ready)
        return false;
  }
  return true;
}

}  // namespace

TEST_CASE("a reduction on the compute stream has nothing beside it") {
  const small_case what{.schedule = "interleaved_1f1b",
                        .stages_per_rank = 2,
                        .microbatches = 2,
                        .data_parallel = 2};
  auto options = options_for(what);
  trainer compiled(model_for(what), options);
  auto text = to_text(compiled.plan());
  for (std::size_t at = 0; (at = text.find("REDUCE_GRAD ", at)) != text.npos;)
    text.insert(at += 11, "!");
  options.plan = std::make_shared<const plan>(plan_from_text(text));
  CHECK(to_text(*options.plan) == text);
  options.schedule = {};
  trainer loaded(model_for(what), options);
  for (int i = 0; i < 2; ++i) {
    compiled.step(small_text());
    for (const auto& rank : loaded.step(small_text()).ops)
      CHECK(is_alone(rank.ops, loaded.plan()));
  }
  CHECK(first_difference(compiled.parameters(), loaded.parameters()) == "");
  CHECK_THROWS_MATCHES(
    plan_of(edited.substr(0, edited.find(" 0UPDATE")) + " 0UPDATE!\n"), error,
    MessageMatches(ContainsSubstring("'0UPDATE!'")
                   && ContainsSubstring("puts a collective")));
}

TEST_CASE("the plan of a schedule, given, trains as the schedule does") {
  for (const std::string name : {"gpipe", "1f1b", "interleaved_1f1b"}) {
    CAPTURE(name);
    small_case what{.schedule = name, .data_parallel = 2, .clip = 0.5};
    what.stages_per_rank = name == "interleaved_1f1b" ? 2 : 1;
    auto options = options_for(what);
    trainer compiled(model_for(what), options);
    options.plan =
      std::make_shared<const plan>(plan_from_text(to_text(compiled.plan())));
    options.schedule = {};
    trainer loaded(model_for(what), options);
    for (auto* run : {&compiled, &loaded})
      run->step(small_text());
    CHECK(first_difference(compiled.parameters(), loaded.parameters()) == "");
  }
}

TEST_CASE("a plan that contradicts the options is refused") {
  const auto loaded = plan_of(edited);
  CHECK(refusal_of(options_with(loaded)) == "none");
  CHECK_THAT(
    refusal_of(options_with(loaded, {.microbatches = 2, .data_parallel = 2})),
    ContainsSubstring(
      "the plan of own: data_parallel is 2, so each stage needs "
      "a REDUCE_GRAD"));
  CHECK_THAT(
    refusal_of(options_with(loaded, {.microbatches = 2, .clip = 1})),
    ContainsSubstring("need the norm of all stages; write `global_norm 1`"));
  CHECK_THAT(refusal_of(options_with(plan_of(edited, 1))),
             ContainsSubstring("write `global_norm 0`"));
  auto lanes = edited;
  lanes.replace(lanes.find(" 0NORM"), 6, " 0REDUCE_GRAD 0NORM");
  CHECK_THAT(refusal_of(options_with(plan_of(lanes))),
             ContainsSubstring("data_parallel is 1"));
  lanes = edited;
  lanes.erase(lanes.find(" 0UPDATE"), 8);
  CHECK_THAT(refusal_of(options_with(plan_of(lanes))),
             ContainsSubstring("each stage needs a NORM and an UPDATE"));
}

TEST_CASE("a plan without progress is refused with its cycle") {
  const auto stuck = plan_of(
    "rank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0F1 0SEND_F1 0RECV_B1 0B1 0NORM "
    "0UPDATE\n"
    "rank 1: 1RECV_F0 1F0 1RECV_F1 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1NORM "
    "1UPDATE\n");
  CHECK_THAT(refusal_of(options_with(stuck)),
             ContainsSubstring("the plan of own: deadlock: ")
               && ContainsSubstring("waits for"));
}

TEST_CASE("a plan that gives a rank no op is refused") {
  const auto loaded = std::make_shared<const plan>(plan_from_text(
    "troupe plan 1\nname own\nmicrobatches 1\nslices 1\nglobal_norm 0\n"
    "placement 0 2\nrank 0: 0F0 0SEND_F0 0RECV_B0 0B0 0NORM 0UPDATE\n"
    "rank 1:\nrank 2: 1RECV_F0 1F0 1B0 1SEND_B0 1NORM 1UPDATE\n"
    "credits 1 1\n"));
  CHECK_THAT(refusal_of(options_with(loaded)),
             ContainsSubstring("gives rank 1 no op"));
}
