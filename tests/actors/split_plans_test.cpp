// Plans with input and weight backwards and with slices: edited, failing, in
// bf16, and for stages that are no chain.
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "../engine/transport/joined_meshes.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/stage/module/weight_gradients.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

const small_case split_case{.schedule = "zb_h1", .microbatches = 3};
const small_case sliced_case{
  .schedule = "seq_1f1b", .microbatches = 2, .slices = 2};

std::string text_of(const small_case& what) {
  return to_text(compile(make_schedule(what.schedule, shape_of(what))));
}

/// Moves an op of rank 0 in front of another one, or behind it.
std::string moved(std::string text, const std::string& op,
                  const std::string& to, bool behind = false) {
  const auto from = text.find(" " + op + " ");
  REQUIRE(from != std::string::npos);
  text.erase(from, op.size() + 1);
  const auto at = text.find(" " + to + " ");
  REQUIRE(at != std::string::npos);
  return text.insert(behind ? at + 1 + to.size() : at, " " + op);
}

trainer_options options_with(const small_case& what, const std::string& text) {
  auto whole = what;
  whole.schedule = "1f1b";  // which the plan replaces
  whole.slices = 1;
  auto options = options_for(whole);
  options.schedule = {};
  options.plan = std::make_shared<const plan>(plan_from_text(text));
  return options;
}

std::string refusal(const small_case& what, const std::string& text) {
  try {
    const trainer run(model_for(what), options_with(what, text));
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

std::string order_of_rank_0(const trainer& run, const step_report& report) {
  std::string text = "rank 0:";
  for (const auto& op : report.ops[0].ops)
    text += " " + to_text(run.plan(), op.op);
  return text + "\n";
}

/// Trains an edited plan, and checks which ops ran on rank 0, and whether the
/// bits differ from the plain loop's.
void check_trained(const small_case& what, const std::string& text) {
  trainer run(model_for(what), options_with(what, text));
  plain_loop oracle(model_for(what), plain_options_for(what));
  const auto rows = small_text();
  for (int i = 0; i < 2; ++i) {
    CHECK_THAT(text, ContainsSubstring(order_of_rank_0(run, run.step(rows))));
    oracle.step(
      [&](std::int64_t k) { return rows->at(i * what.microbatches + k); });
  }
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

}  // namespace

TEST_CASE("a weight backward that was moved runs there, with the same bits") {
  const auto text = text_of(split_case);
  check_trained(split_case, text);
  auto late = moved(text, "0W0", "0W2");
  late = moved(late, "0W1", "0W2");
  check_trained(split_case, late);
  auto whole = text;
  whole.replace(whole.find("0I1 0W1"), 7, "0B1");
  check_trained(split_case, whole);
  check_trained(sliced_case, text_of(sliced_case));
}

TEST_CASE("weight backwards out of place are refused by name") {
  const auto text = text_of(split_case);
  CHECK_THAT(
    refusal(split_case, moved(text, "0W0", "0I0")),
    ContainsSubstring("rank 0") && ContainsSubstring("0W0 comes before its I"));
  auto without = text;
  without.erase(without.find(" 0W1"), 4);
  CHECK_THAT(refusal(split_case, without), ContainsSubstring("0W1 is missing"));
  without = text;
  without.erase(without.find(" 0I1"), 4);
  CHECK_THAT(refusal(split_case, without),
             ContainsSubstring("0W1 comes before its I"));
  CHECK_THAT(refusal(split_case, moved(text, "0W0", "0W1", true)),
             ContainsSubstring("out of order (0W0 comes"));
  auto whole = moved(text, "0W0", "0W1", true);
  whole.replace(whole.find("0I1 0W1"), 7, "0B1");
  CHECK_THAT(refusal(split_case, whole),
             ContainsSubstring("out of order (0W0 comes"));
  CHECK_THAT(refusal(split_case, moved(text, "0W2", "0NORM", true)),
             ContainsSubstring("0NORM comes before"));
  CHECK_THAT(
    refusal(sliced_case, moved(text_of(sliced_case), "0B1.0", "0B1.1")),
    ContainsSubstring("out of order"));
}

TEST_CASE("schedules whose backwards are cut along the graph train its bits") {
  for (auto what :
       {small_case{.schedule = "zb_h1", .ranks = 3, .microbatches = 7},
        small_case{.schedule = "zb_h2", .microbatches = 5, .recompute = true},
        small_case{
          .schedule = "zb_v", .stages_per_rank = 2, .data_parallel = 2},
        small_case{.schedule = "dualpipe_v", .stages_per_rank = 2},
        small_case{.schedule = "zb_v",
        .stages_per_rank = 2,
        .clip = 0.5,
        .autocast = at::kBFloat16}}) {
    what.weight_split = weight_split::graph;
    for (const auto order : {lane_order::strict, lane_order::ready_first}) {
      what.order = order;
      INFO(describe(what));
      CHECK(compare_with_plain(what, 3) == "");
    }
  }
}

TEST_CASE("split backwards and slices are the plain loop in bf16, too") {
  for (auto what :
       {small_case{.schedule = "zb_h1", .ranks = 3, .microbatches = 5},
        small_case{.schedule = "zb_v", .stages_per_rank = 2},
        small_case{.schedule = "seq_1f1b", .slices = 3},
        small_case{.schedule = "seq_1f1b", .slices = 3, .recompute = true}}) {
    what.autocast = at::kBFloat16;
    what.clip = 0.5;
    INFO(describe(what));
    CHECK(compare_with_plain(what, 3) == "");
  }
}

namespace {

/// Passes its input on. The n-th backward throws, either while computing the
/// input's gradient or the weight's.
struct refusing final : torch::autograd::Function<refusing> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, bool in_weights,
                            std::int64_t at) {
    note_store(*context, {});
    context->saved_data["in_weights"] = in_weights;
    context->saved_data["at"] = at;
    return x.clone();
  }
  static tensor_list backward(torch::autograd::AutogradContext* context,
                              const tensor_list& gradients) {
    if (context->saved_data["at"].toInt() == 0) {
      if (!context->saved_data["in_weights"].toBool())
        throw std::runtime_error("no gradient today");
      add_weight_gradients(
        *context, [] { throw std::runtime_error("no weights today"); });
    }
    return {gradients[0], {}, {}};
  }
};

struct refusing_layer final : stage_module {
  refusing_layer(bool weights, int at) : in_weights(weights), calls_left(at) {}
  bool runs_in_slices() const override { return true; }
  using stage_module::forward;
  tensor_list forward(const tensor_list& inputs) override {
    return {refusing::apply(inputs.at(0), in_weights, calls_left--)};
  }
  bool in_weights;
  std::int64_t calls_left;
};

model refusing_model(bool in_weights, int at) {
  auto layers = gpt(small_gpt());
  layers.insert(layers.begin() + 4, {"broken", [=] {
                                       return std::make_shared<refusing_layer>(
                                         in_weights, at);
                                     }});
  return layers;
}

std::string failure_in(const small_case& what, bool in_weights,
                       const std::shared_ptr<mesh>& job) {
  auto options = options_for(what);
  options.job = job;
  trainer run(refusing_model(in_weights, 1), options);
  try {
    run.step(small_text());
  } catch (const error& reason) {
    return reason.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("a failure in I or W names its op, in one process and in several") {
  const auto slices = GENERATE(1, 2);
  const auto in_weights = GENERATE(false, true);
  auto what = slices == 1 ? split_case : sliced_case;
  const std::string op = slices == 1 ? (in_weights ? "1W1" : "1I1") : "1B0.1";
  joined_meshes meshes(2);
  auto failures = in_all(meshes, [&](const auto& job) {
    throw std::runtime_error(failure_in(what, in_weights, job));
  });
  failures.push_back(failure_in(what, in_weights, nullptr));
  for (const auto& each : failures)
    CHECK_THAT(each, ContainsSubstring("step 1, rank 1, op " + op
                                       + " (stage 1, microbatch "
                                       + (slices == 1 ? "1" : "0"))
                       && ContainsSubstring(in_weights ? "no weights today"
                                                       : "no gradient today"));
}

TEST_CASE("a NaN that a split schedule finds names its op") {
  for (auto what : {split_case, sliced_case}) {
    auto options = options_for(what);
    options.numerics.halt_on_nan = true;
    options.numerics.loss = [base = cross_entropy_loss()](
                              const tensor_list& outputs,
                              const microbatch_data& data) {
      auto terms = base(outputs, data);
      terms[0].value =
        terms[0].value * std::numeric_limits<double>::quiet_NaN();
      return terms;
    };
    trainer run(model_for(what), options);
    std::string text;
    try {
      run.step(small_text());
    } catch (const error& reason) {
      text = reason.what();
    }
    CHECK_THAT(text, ContainsSubstring("microbatch 0")
                       && ContainsSubstring("the loss 'loss' is nan"));
  }
}
