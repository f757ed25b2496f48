#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <chrono>
#include <limits>
#include <thread>

#include "../engine/transport/joined_meshes.hpp"
#include "captured_log.hpp"
#include "small_model.hpp"
#include "troupe/actors/step/run_health.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/events/monitor.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// A layer whose behaviour the test chooses.
struct function_layer final : stage_module {
  using function = std::function<tensor_list(const tensor_list&)>;
  explicit function_layer(function what) : run(std::move(what)) {}
  tensor_list forward(const tensor_list& inputs) override {
    return run(inputs);
  }
  function run;
};

model with_layer(const function_layer::function& what) {
  auto layers = gpt(small_gpt());
  layers.insert(
    layers.begin() + 4,
    {"own", [what] { return std::make_shared<function_layer>(what); }});
  return layers;
}

/// A layer with the weights that it is given.
struct scaling_layer final : stage_module {
  explicit scaling_layer(const at::Tensor& values)
    : weight(register_parameter("weight", values)) {}
  tensor_list forward(const tensor_list& inputs) override {
    return {inputs[0] * weight};
  }
  at::Tensor weight;
};

model scaled_by(const std::function<std::shared_ptr<stage_module>()>& make) {
  return {{"first", make}, {"last", make}};
}

/// The error of a run's first step.
std::string failure_of(const model& layers, trainer_options options,
                       const source_pointer& source) {
  options.execution.limits.leave = 60;
  trainer run(layers, std::move(options));
  try {
    run.step(source);
  } catch (const error& reason) {
    return reason.what();
  }
  return "no failure";
}

std::string refusal_of(const model& layers, const trainer_options& options) {
  try {
    const trainer run(layers, options);
  } catch (const error& reason) {
    CHECK(reason.code() == error_code::invalid_argument);
    return reason.what();
  }
  return "no refusal";
}

/// Whether the leftover threads end and release what they hold.
template <class Held>
bool lets_go(const std::weak_ptr<Held>& of) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!of.expired() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return of.expired();
}

}  // namespace

TEST_CASE("a module that several stages or replicas would share is refused") {
  const auto only = std::make_shared<scaling_layer>(at::ones({1}));
  const auto shared = scaled_by([=] { return only; });
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  const auto same = ContainsSubstring(
    "'first.weight' and 'last.weight' are the same tensor; return a new module "
    "from each call of `make`");
  CHECK_THAT(refusal_of(shared, options), same);
  CHECK_THROWS_MATCHES(plain_loop(shared, {}), error, MessageMatches(same));
  options.schedule = make_schedule("1f1b", {.ranks = 1, .microbatches = 2});
  options.data_parallel = 2;
  CHECK_THAT(refusal_of({shared[0]}, options),
             ContainsSubstring("'first.weight' and 'first.weight'"));
}

TEST_CASE("a parameter whose elements share memory is refused") {
  const auto expanded = scaled_by([] {
    return std::make_shared<scaling_layer>(at::ones({4, 1}).expand({4, 4}));
  });
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  CHECK_THAT(refusal_of(expanded, options),
             ContainsSubstring("'first.weight' share memory"));
  CHECK_THROWS_MATCHES(plain_loop(expanded, {}), error,
                       MessageMatches(ContainsSubstring("share memory")));
}

TEST_CASE("a `make` that fails is named with its layer") {
  const auto broken = scaled_by([]() -> std::shared_ptr<stage_module> {
    throw std::runtime_error("no weights file");
  });
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  CHECK_THAT(refusal_of(broken, options),
             ContainsSubstring("('first'): its `make` failed: ")
               && ContainsSubstring("no weights file"));
}

TEST_CASE("a module with one submodule under two names is refused") {
  const auto doubled = scaled_by([] {
    const auto inner = std::make_shared<scaling_layer>(at::ones({1}));
    auto outer = std::make_shared<function_layer>(
      [=](const tensor_list& inputs) { return inner->forward(inputs); });
    outer->register_module("a", inner);
    outer->register_module("b", inner);
    return outer;
  });
  trainer_options options;
  options.schedule = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  CHECK_THAT(refusal_of(doubled, options),
             ContainsSubstring("'first.a.weight' and 'first.b.weight'"));
}

TEST_CASE(
  "a thrown value that is no std::exception fails a step and is reported") {
  const small_case what{};
  const auto says = ContainsSubstring("of type int was thrown");
  CHECK_THAT(
    failure_of(with_layer([](const tensor_list&) -> tensor_list { throw 3; }),
               options_for(what), small_text()),
    says && ContainsSubstring("op 1F0"));
  auto options = options_for(what);
  options.numerics.loss =
    [](const auto&, const auto&) -> std::vector<loss_term> { throw 3; };
  CHECK_THAT(failure_of(model_for(what), options, small_text()), says);
  const auto source =
    make_source([](std::int64_t) -> microbatch_data { throw 3; });
  CHECK_THAT(failure_of(model_for(what), options_for(what), source),
             says && ContainsSubstring("load"));
  options = options_for(what);
  options.execution.handler_hook = [] { throw 3; };
  CHECK_THAT(failure_of(model_for(what), options, small_text()), says);
}

TEST_CASE(
  "a monitor that throws something other than std::exception is detached") {
  trainer run(model_for({}), options_for({}));
  monitor bad;
  bad.name = "bad";
  bad.see = [](const event&) { throw 3; };
  bad.given_up = [](const std::string&) { throw 4; };
  const auto id = run.attach(bad);
  run.step(small_text());
  run.step(small_text());
  CHECK_THROWS_MATCHES(run.detach(id), error,
                       MessageMatches(ContainsSubstring("of type int")));
}

TEST_CASE("a second trainer on a job is refused, and the first goes on") {
  joined_meshes meshes(2);
  for (const auto& problem : in_all(meshes, [](const auto& job) {
         auto first = trainer_for({}, job);
         std::string refusal;
         try {
           trainer_for({}, job);
         } catch (const error& reason) {
           refusal = reason.what();
         }
         expect(refusal.find("a job runs one trainer") != std::string::npos,
                "a second trainer is refused");
         first.step(small_text());
         expect(first.step(small_text()).summary.updated, "the step updates");
       }))
    CHECK(problem == "");
}

TEST_CASE("a source that never returns is named and left behind") {
  const captured_log log;
  const auto stuck = std::make_shared<std::atomic<bool>>(true);
  const auto called = std::make_shared<std::atomic<bool>>(false);
  auto source = make_source([stuck, called](std::int64_t) -> microbatch_data {
    *called = true;
    called->notify_one();
    while (*stuck)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return small_text()->at(0);
  });
  auto options = options_for({});
  options.execution.limits.leave = 0.2;
  std::chrono::steady_clock::time_point begin;
  {
    trainer run(model_for({}), options);
    // An interrupt before the call would end the step without it.
    std::thread other([&] {
      called->wait(false);
      run.interrupt("enough");
    });
    CHECK_THROWS_AS(run.step(source), error);
    other.join();
    begin = std::chrono::steady_clock::now();
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  CHECK_THAT(log.text(),
             ContainsSubstring("the data source has not returned microbatch 0 "
                               "(of replica 0)"));
  const std::weak_ptr observer = source;
  source.reset();
  *stuck = false;  // the leftover thread's call ends
  CHECK(lets_go(observer));
}

TEST_CASE("a layer that never returns is named and left behind") {
  const captured_log log;
  const auto stuck = std::make_shared<std::atomic<bool>>(true);
  auto resource = std::make_shared<int>();
  const std::weak_ptr observer = resource;
  auto options = options_for({});
  options.execution.limits.leave = 0.2;
  {
    trainer run(with_layer([stuck, resource](const tensor_list& inputs) {
                  while (*stuck)
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                  return inputs;
                }),
                options);
    std::thread other([&] {
      const auto runs = [&] {
        const auto ranks = run.health().ranks;
        return ranks.size() > 1 && ranks[1].op == "1F0"
               && ranks[1].doing == rank_state::running;
      };
      while (!runs())
        std::this_thread::yield();
      run.interrupt("enough");
    });
    CHECK_THROWS_AS(run.step(small_text()), error);
    other.join();
  }
  CHECK_THAT(log.text(), ContainsSubstring("abandoned")
                           && ContainsSubstring("rank 1 runs 1F0"));
  resource.reset();
  *stuck = false;
  CHECK(lets_go(observer));
}

TEST_CASE("null pointers and functions are refused by name") {
  const auto layers = model_for({});
  const auto options = options_for({});
  trainer run(layers, options);
  CHECK_THROWS_MATCHES(
    run.step(nullptr), error,
    MessageMatches(ContainsSubstring("the data source is null")));
  CHECK_THROWS_AS(run.evaluate(nullptr, 4), error);
  CHECK_THROWS_AS(make_source({}), error);
  CHECK_THROWS_AS(preprocess(nullptr, [](auto data, auto) { return data; }),
                  error);
  CHECK_THROWS_AS(text_batches(nullptr, {}), error);
  monitor blind;
  blind.name = "blind";
  CHECK_THROWS_MATCHES(run.attach(blind), error,
                       MessageMatches(ContainsSubstring("'blind'")));
  CHECK(run.step(small_text()).summary.updated);

  auto broken = layers;
  broken[1].make = nullptr;
  CHECK_THAT(refusal_of(broken, options), ContainsSubstring("layer 1 ('"));
  broken[1].make = [] { return std::shared_ptr<stage_module>(); };
  CHECK_THAT(refusal_of(broken, options), ContainsSubstring("null pointer"));
  auto without_loss = options;
  without_loss.numerics.loss = nullptr;
  CHECK_THAT(refusal_of(layers, without_loss), ContainsSubstring("no loss"));
}

TEST_CASE("a layer or a source without tensors fails the step by name") {
  const small_case what{};
  CHECK_THAT(
    failure_of(with_layer([](const tensor_list&) { return tensor_list{}; }),
               options_for(what), small_text()),
    ContainsSubstring("layer 4 ('own') returned an empty list"));
  CHECK_THAT(
    failure_of(with_layer([](const tensor_list&) { return tensor_list(1); }),
               options_for(what), small_text()),
    ContainsSubstring("layer 4 ('own') returned only undefined tensors"));
  CHECK_THAT(
    failure_of(model_for(what), options_for(what),
               make_source([](std::int64_t) { return microbatch_data{}; })),
    ContainsSubstring("microbatches without inputs"));
}

TEST_CASE("wrong shapes and classes fail the step by name") {
  const small_case what{};
  CHECK_THAT(
    failure_of(with_layer([](const tensor_list& inputs) -> tensor_list {
                 return {inputs[0].matmul(at::ones({3, 5}))};
               }),
               options_for(what), small_text()),
    ContainsSubstring("(layer 4 ('own'))"));
  CHECK_THAT(failure_of(model_for(what), options_for(what),
                        make_source([](std::int64_t index) {
                          auto data = small_text()->at(index);
                          data.targets[0].fill_(100'000);
                          return data;
                        })),
             ContainsSubstring("Target 100000 is out of bounds. (in the loss "
                               "function)"));
}

TEST_CASE("a loss without a gradient or a value fails the step by name") {
  const small_case what{};
  auto options = options_for(what);
  const auto base = cross_entropy_loss();
  options.numerics.loss = [&](const tensor_list& outputs,
                              const microbatch_data& data) {
    auto terms = base(outputs, data);
    terms[0].value = terms[0].value.detach();
    return terms;
  };
  CHECK_THAT(failure_of(model_for(what), options, small_text()),
             ContainsSubstring("the loss 'loss' has no gradient"));
  options.numerics.loss = [](const auto&, const auto&) {
    return std::vector<loss_term>{{"own", at::Tensor{}}};
  };
  CHECK_THAT(failure_of(model_for(what), options, small_text()),
             ContainsSubstring("the loss 'own' is"));
}

TEST_CASE("two layers of one name are refused") {
  auto layers = model_for({});
  layers[2].name = layers[1].name;
  CHECK_THAT(refusal_of(layers, options_for({})),
             ContainsSubstring("layer 2 ('")
               && ContainsSubstring("has the name of another layer"));
  CHECK_THROWS_AS(plain_loop(layers, {}), error);
  for (auto& each : layers)
    each.name = "";
  CHECK_THAT(refusal_of(layers, options_for({})),
             ContainsSubstring("two parameters or buffers have the name"));
}

TEST_CASE("numbers that can't be meant are refused by the trainer") {
  const auto layers = model_for({});
  const auto with = [&](const auto& change) {
    auto options = options_for({});
    change(options);
    return refusal_of(layers, options);
  };
  const auto nan = std::numeric_limits<double>::quiet_NaN();
  for (const double rate : {-1e-3, nan}) {
    CHECK_THAT(with([&](auto& o) {
                 o.numerics.optimizer = adamw{.learning_rate = rate};
               }),
               ContainsSubstring("the learning rate of the optimizer is"));
    CHECK_THAT(
      with([&](auto& o) { o.numerics.optimizer = sgd{.learning_rate = rate}; }),
      ContainsSubstring("the learning rate of the optimizer is"));
  }
  CHECK_THAT(with([](auto& o) { o.numerics.optimizer = adamw{.beta2 = 1}; }),
             ContainsSubstring("beta2"));
  CHECK_THAT(
    with([](auto& o) { o.numerics.optimizer = sgd{.weight_decay = -1}; }),
    ContainsSubstring("weight decay"));
  CHECK_THAT(with([&](auto& o) { o.numerics.clip = nan; }),
             ContainsSubstring("clip"));
  CHECK_THAT(with([](auto& o) { o.execution.intra_op_threads = 0; }),
             ContainsSubstring("intra_op_threads is 0; use 1 to 1024"));
  CHECK_THAT(with([](auto& o) { o.numerics.loss_scale.initial = 0; }),
             ContainsSubstring("loss scale"));
  CHECK_THAT(with([](auto& o) { o.numerics.learning_rate.warmup_steps = -1; }),
             ContainsSubstring("warm-up"));
  CHECK_THAT(with([](auto& o) {
               o.split = {{0, 1}, {2, 6}};
             }),
             ContainsSubstring("the split gives a stage layers 2 to 5"));
}
