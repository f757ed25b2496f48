#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <chrono>
#include <limits>
#include <thread>

#include "../expect.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Runs one step and returns its error.
std::string failure_of(trainer& run, const source_pointer& source) {
  try {
    run.step(source);
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::op_failed);
    return reason.what();
  }
  return "no failure";
}

/// A layer that passes its input on and throws at the n-th forward.
struct failing_layer final : stage_module {
  explicit failing_layer(int at) : calls_left(at) {}
  tensor_list forward(const tensor_list& inputs) override {
    if (calls_left-- == 0)
      throw std::runtime_error("the layer is broken");
    return inputs;
  }
  int calls_left;
};

model with_failure(int at) {
  auto layers = gpt(small_gpt());
  layers.insert(
    layers.begin() + 4,
    {"broken", [at] { return std::make_shared<failing_layer>(at); }});
  return layers;
}

}  // namespace

TEST_CASE("executed order is the plan, on every rank") {
  for (const auto* name : {"gpipe", "1f1b", "interleaved_1f1b"}) {
    small_case what{.schedule = name, .ranks = 2, .data_parallel = 2};
    what.stages_per_rank = std::string(name) == "interleaved_1f1b" ? 2 : 1;
    trainer run(model_for(what), options_for(what));
    const auto& plan = run.plan();
    const auto report = run.step(small_text());
    REQUIRE(report.ops.size() == 4);
    for (const auto& rank : report.ops) {
      const auto first =
        plan.first_op[static_cast<std::size_t>(rank.source.rank)];
      REQUIRE(rank.ops.size() == plan.lane(rank.source.rank).size());
      for (std::size_t i = 0; i < rank.ops.size(); ++i) {
        CHECK(rank.ops[i].op == first + i);
        CHECK(rank.ops[i].begin <= rank.ops[i].end);
        if (i > 0)
          CHECK(rank.ops[i - 1].end <= rank.ops[i].begin);
      }
    }
  }
}

TEST_CASE("an op begins after the ops that it depends on have ended") {
  const small_case what{.ranks = 4, .microbatches = 8};
  trainer run(model_for(what), options_for(what));
  const auto report = run.step(small_text());
  const auto& plan = run.plan();
  std::vector<op_record> by_op(plan.ops.size());
  for (const auto& rank : report.ops)
    for (const auto& op : rank.ops)
      by_op[op.op] = op;
  for (const auto& message : plan.messages)
    CHECK(by_op[message.producer].end <= by_op[message.consumer].begin);
}

TEST_CASE("losses are reported by name, averaged over replicas") {
  small_case what{.data_parallel = 2};
  auto options = options_for(what);
  options.numerics.loss = [base = cross_entropy_loss()](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    auto terms = base(outputs, data);
    terms.push_back({"constant", terms[0].value.detach() * 0 + 3, 5, 0});
    return terms;
  };
  trainer run(model_for(what), std::move(options));
  const auto step = run.step(small_text()).summary;
  REQUIRE(step.losses.size() == 2);
  CHECK(step.losses[0].name == "loss");
  CHECK(step.losses[0].count == 2 * 4 * 2 * 8);  // D x m x rows x length
  CHECK(step.losses[1].name == "constant");
  CHECK(step.losses[1].value == 3);
  CHECK(step.losses[1].count == 2 * 4 * 5);
  CHECK(step.tokens == 2 * 4 * 2 * 8);
}

TEST_CASE("skip_step runs all but the update") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  parameter_list before;
  for (const auto& [name, value] : run.parameters())
    before.emplace_back(name, value.clone());
  const auto step = run.step(small_text(), true).summary;
  CHECK_FALSE(step.updated);
  CHECK(step.gradient_norm > 0);
  CHECK(first_difference(run.parameters(), before) == "");
  CHECK(run.step(small_text()).summary.updated);
  CHECK(first_difference(run.parameters(), before) != "");
}

TEST_CASE("evaluation changes nothing and equals the plain loop's loss") {
  const small_case what{.schedule = "interleaved_1f1b", .stages_per_rank = 2};
  trainer run(model_for(what), options_for(what));
  plain_options plain;
  plain.microbatches = what.microbatches;
  plain_loop oracle(model_for(what), plain);
  const auto text = small_text();
  const auto expected =
    oracle.evaluate([&](std::int64_t k) { return text->at(k); }, 8);
  const auto loss = run.evaluate(text, 8).losses.at(0).value;
  CHECK(std::abs(loss - expected.value) < 1e-12);
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

TEST_CASE("inference gives the last stage's outputs and changes nothing") {
  const small_case what{.schedule = "interleaved_1f1b", .stages_per_rank = 2};
  trainer run(model_for(what), options_for(what));
  plain_loop oracle(model_for(what), {});
  const auto ids = small_text()->at(0).inputs;
  const auto outputs = run.infer(ids);
  REQUIRE(outputs.size() == 1);
  CHECK(at::equal(outputs[0], oracle.infer(ids).at(0)));
  CHECK_FALSE(outputs[0].requires_grad());
  CHECK(run.position() == 0);
  CHECK(first_difference(run.parameters(), oracle.parameters()) == "");
}

TEST_CASE("an overflow under a dynamic loss scale skips the update") {
  small_case what{};
  auto options = options_for(what);
  options.numerics.loss_scale = {1e38, true};
  options.numerics.loss = [base = cross_entropy_loss()](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    auto terms = base(outputs, data);
    terms[0].value = terms[0].value * 1e6;
    return terms;
  };
  trainer run(model_for(what), std::move(options));
  const auto step = run.step(small_text()).summary;
  CHECK_FALSE(step.updated);
  CHECK(run.loss_scale() == 0.5e38);
}

TEST_CASE("a run goes on from its position and parameters, bit for bit") {
  const small_case what{.use_sgd = true};
  auto options = options_for(what);
  options.numerics.optimizer =
    sgd{};  // without momentum the parameters are its whole state
  const auto text = small_text();
  trainer whole(model_for(what), options);
  whole.step(text);
  trainer later(model_for(what), options);
  later.load(whole.parameters(), "memory");
  CHECK_THROWS_AS(later.set_position(-1), error);
  later.set_position(whole.position());
  CHECK(whole.position() == 4);
  whole.step(text);
  later.step(text);
  CHECK(first_difference(whole.parameters(), later.parameters()) == "");
}

TEST_CASE("replicas that differ are found, by name") {
  auto layers = gpt(small_gpt());
  const auto make_second = layers[1].make;
  layers[1].make = [make_second, count = std::make_shared<int>(0)] {
    auto module = make_second();
    module->parameters()[0].detach().add_((*count)++);
    return module;
  };
  trainer run(layers, options_for({.data_parallel = 2}));
  try {
    run.check_replicas();
    FAIL("nothing was found");
  } catch (const error& reason) {
    CHECK_THAT(reason.what(), ContainsSubstring("blocks.0.ln1.weight"));
  }
}

TEST_CASE("a schedule with microbatches out of order is refused") {
  auto options = options_for({});
  for (auto& lane : options.schedule.lanes)
    for (auto& op : lane)
      op.microbatch = 3 - op.microbatch;
  CHECK_THROWS_AS(trainer(model_for({}), options), error);
}

TEST_CASE("a stage that throws is named as the root of the failure") {
  const small_case what{};
  trainer run(with_failure(2), options_for(what));
  const auto text = failure_of(run, small_text());
  CHECK_THAT(text, ContainsSubstring("step 1, rank 1, op 1F2 (stage 1, "
                                     "microbatch 2, replica 0): the layer "
                                     "is broken"));
  CHECK(failure_of(run, small_text()) == text);
}

TEST_CASE("a NaN loss fails the step when asked") {
  const small_case what{};
  auto options = options_for(what);
  options.numerics.halt_on_nan = true;
  options.numerics.loss = [base = cross_entropy_loss()](
                            const tensor_list& outputs,
                            const microbatch_data& data) {
    auto terms = base(outputs, data);
    terms[0].value = terms[0].value * std::numeric_limits<double>::quiet_NaN();
    return terms;
  };
  trainer run(model_for(what), std::move(options));
  CHECK_THAT(failure_of(run, small_text()),
             ContainsSubstring("op 1F0 (stage 1, microbatch 0, replica 0): "
                               "the loss 'loss' is nan"));
}

TEST_CASE("a source that ends is an error that names the microbatch") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  const auto endless = small_text();
  const auto short_source =
    make_source([&](std::int64_t index) { return endless->at(index); }, 6);
  run.step(short_source);
  CHECK_THAT(failure_of(run, short_source),
             ContainsSubstring("microbatch 2")
               && ContainsSubstring("has 6 microbatches, but number 6"));
}

TEST_CASE("an interrupt ends a step that waits, and says who waits") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  std::atomic<bool> interrupted = false;
  const auto stuck = make_source([&](std::int64_t) -> microbatch_data {
    while (!interrupted)
      std::this_thread::yield();
    return small_text()->at(0);
  });
  std::thread other([&] { run.interrupt("enough"); });
  try {
    run.step(stuck);
    FAIL("the step was not interrupted");
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::interrupted);
    CHECK_THAT(reason.what(), ContainsSubstring("enough"));
  }
  other.join();
  interrupted = true;
}

TEST_CASE("observed tensors reach a monitor under their unsplit names") {
  const small_case what{};
  auto names = std::make_shared<std::vector<std::string>>();
  monitor watcher;
  watcher.name = "test";
  watcher.wants.tensors =
    tensor_kind::activation | tensor_kind::activation_gradient;
  watcher.wants.steps = false;
  watcher.wants.names = "blocks.3.mlp.*";
  watcher.see = [names](const event& event) {
    const auto& op = std::get<tensors_event>(event);
    expect(op.source.stage == 1, "it is stage 1");
    for (const auto& record : op.tensors)
      names->push_back(record.owner->name + (op.backward ? "'" : ""));
  };
  const auto four_blocks = gpt(small_gpt(4));
  trainer deeper(four_blocks, options_for(what));
  const auto id = deeper.attach(watcher);
  deeper.step(small_text());
  deeper.detach(id);
  CHECK(names->size() == 4 * 6);
  for (const auto* expected :
       {"blocks.3.mlp.up", "blocks.3.mlp.up'", "blocks.3.mlp.act",
        "blocks.3.mlp.act'", "blocks.3.mlp.down", "blocks.3.mlp.down'"})
    CHECK(std::ranges::count(*names, expected) == 4);
}

TEST_CASE("a monitor that throws is detached and changes nothing") {
  const small_case what{};
  trainer run(model_for(what), options_for(what));
  monitor bad;
  bad.name = "bad";
  bad.see = [](const event&) { throw std::runtime_error("oh"); };
  const auto id = run.attach(bad);
  run.step(small_text());
  run.step(small_text());
  CHECK_THROWS_AS(run.detach(id), error);
  trainer without(model_for(what), options_for(what));
  without.step(small_text());
  without.step(small_text());
  CHECK(first_difference(run.parameters(), without.parameters()) == "");
}
