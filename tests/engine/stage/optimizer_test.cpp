#include "troupe/engine/stage/update/optimizer.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>

#include "troupe/base/error.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe_paths.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<std::string> names = {"matrix", "wide", "vector", "scalar",
                                        "cube"};

std::map<std::string, at::Tensor> load_table() {
  std::map<std::string, at::Tensor> table;
  for (auto& [name, value] :
       read_safetensors(TROUPE_SOURCE_DIR "/tests/golden/"
                                          "optimizers.safetensors"))
    table.emplace(name, value);
  return table;
}

const std::map<std::string, at::Tensor>& golden_values() {
  static const auto loaded = load_table();
  return loaded;
}

/// Parameters with the table's initial values.
parameter_list initial() {
  parameter_list parameters;
  for (const auto& name : names)
    parameters.emplace_back(
      name, golden_values().at("initial." + name).clone().requires_grad_(true));
  return parameters;
}

/// `vector` has no gradient in steps 0, 3, 6 and 9.
void give_gradients(const parameter_list& parameters, std::int64_t step) {
  for (const auto& [name, value] : parameters)
    at::Tensor{value}.mutable_grad() =
      name == "vector" && step % 3 == 0
        ? at::Tensor{}
        : golden_values().at("gradient." + name)[step].clone();
}

void run(optimizer& update, const parameter_list& parameters,
         std::int64_t first, std::int64_t last, double learning_rate) {
  for (auto step = first; step < last; ++step) {
    give_gradients(parameters, step);
    update.step(learning_rate);
  }
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach() - b).abs().max().item<double>();
}

struct golden_case {
  const char* name;
  optimizer_options options;
};

/// The cases of tests/golden/make_optimizers.py.
const std::vector<golden_case> of_pytorch = {
  {"sgd", sgd{.learning_rate = 0.1, .weight_decay = 0.01}},
  {"sgd_momentum",
   sgd{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3}},
  {"sgd_nesterov", sgd{.learning_rate = 0.1,
                       .momentum = 0.9,
                       .weight_decay = 0.01,
                       .nesterov = true}},
  {"adamw", adamw{.learning_rate = 1e-2, .weight_decay = 0.1}},
  {"adafactor", adafactor{}},
  {"adafactor_options", adafactor{.learning_rate = 0.1,
                                  .beta2_decay = -0.7,
                                  .epsilon1 = 1e-6,
                                  .epsilon2 = 1e-2,
                                  .threshold = 1.2,
                                  .weight_decay = 0.1}},
  {"muon_original",
   muon{.learning_rate = 1e-4, .scale = muon_scale::original, .except = ""}},
  {"muon_match_rms_adamw", muon{.learning_rate = 1e-4,
                                .momentum = 0.9,
                                .nesterov = false,
                                .newton_schulz_steps = 3,
                                .except = ""}},
};

std::vector<golden_case> all_cases() {
  auto all = of_pytorch;
  all.push_back({"lion", lion{.weight_decay = 0.1}});
  all.push_back({"muon_except", muon{.except = "wi*"}});
  return all;
}

}  // namespace

TEST_CASE("optimizers agree with PyTorch's of the same name over 10 steps") {
  for (const auto& each : of_pytorch) {
    const auto parameters = initial();
    optimizer update(each.options, parameters);
    for (std::int64_t step = 0; step < 10; ++step) {
      run(update, parameters, step, step + 1, base_learning_rate(each.options));
      for (const auto& [name, value] : parameters) {
        INFO(each.name << ", " << name << " after step " << step);
        const auto& expected =
          golden_values().at(std::string{each.name} + "." + name)[step];
        CHECK(largest_difference(value, expected) < 1e-6);
      }
    }
  }
}

namespace {

/// An element after 10 steps, computed from its gradients.
double lion_formula(const lion& options, double theta,
                    const std::vector<double>& gradients) {
  double m = 0;
  for (const auto g : gradients) {
    const auto c = options.beta1 * m + (1 - options.beta1) * g;
    const auto sign = c > 0 ? 1.0 : c < 0 ? -1.0 : 0.0;
    theta -= options.learning_rate * (sign + options.weight_decay * theta);
    m = options.beta2 * m + (1 - options.beta2) * g;
  }
  return theta;
}

}  // namespace

TEST_CASE("Lion follows the formula of its paper") {
  const lion options{.learning_rate = 0.01, .weight_decay = 0.2};
  const auto start = golden_values().at("initial.matrix").to(at::kDouble);
  const auto gradients = golden_values().at("gradient.matrix").to(at::kDouble);
  auto value = start.clone().requires_grad_(true);
  optimizer update(options, {{"matrix", value}});
  for (std::int64_t step = 0; step < 10; ++step) {
    value.mutable_grad() = gradients[step].clone();
    update.step(options.learning_rate);
  }
  for (std::int64_t i = 0; i < start.numel(); ++i) {
    std::vector<double> of_element;
    for (std::int64_t step = 0; step < 10; ++step)
      of_element.push_back(gradients[step].view(-1)[i].item<double>());
    const auto expected =
      lion_formula(options, start.view(-1)[i].item<double>(), of_element);
    CHECK(std::abs(value.detach().view(-1)[i].item<double>() - expected)
          < 1e-12);
  }
}

TEST_CASE("a restored optimizer goes on as if it had never stopped") {
  for (const auto& each : all_cases()) {
    INFO(each.name);
    const auto rate = base_learning_rate(each.options);
    const auto whole = initial(), part = initial();
    optimizer unstopped(each.options, whole);
    run(unstopped, whole, 0, 10, rate);
    optimizer before(each.options, part);
    run(before, part, 0, 4, rate);
    parameter_list again;
    for (const auto& [name, value] : part)
      again.emplace_back(name, value.detach().clone().requires_grad_(true));
    optimizer after(each.options, again);
    after.load(before.state());
    run(after, again, 4, 10, rate);
    for (std::size_t i = 0; i < whole.size(); ++i)
      CHECK(at::equal(whole[i].second, again[i].second));
    const auto ends = unstopped.state(), restored = after.state();
    for (std::size_t i = 0; i < ends.size(); ++i) {
      REQUIRE(ends[i].tensors.size() == restored[i].tensors.size());
      for (std::size_t j = 0; j < ends[i].tensors.size(); ++j) {
        CHECK(ends[i].tensors[j].first == restored[i].tensors[j].first);
        CHECK(
          at::equal(ends[i].tensors[j].second, restored[i].tensors[j].second));
      }
    }
  }
}

TEST_CASE("a state without a parameter's first gradient is restored") {
  const auto a = initial(), b = initial();
  const sgd options{.momentum = 0.9, .dampening = 0.5};
  optimizer unstopped(options, a), before(options, b);
  run(before, b, 0, 1, 0.1);
  CHECK(before.state().at(2).tensors.empty());  // the vector's
  optimizer after(options, b);
  after.load(before.state());
  run(after, b, 1, 3, 0.1);
  run(unstopped, a, 0, 3, 0.1);
  CHECK(at::equal(a.at(2).second, b.at(2).second));
}

TEST_CASE("gradients of other strides than their parameter's update it alike") {
  for (const auto& each : all_cases()) {
    CAPTURE(each.name);
    const auto plain = initial();
    auto transposed = initial();
    for (auto& [name, value] : transposed)
      if (value.dim() == 2)
        value =
          value.detach().t().contiguous().t().clone().requires_grad_(true);
    optimizer first(each.options, plain), second(each.options, transposed);
    run(first, plain, 0, 5, 0.1);
    run(second, transposed, 0, 5, 0.1);
    for (std::size_t i = 0; i < plain.size(); ++i)
      CHECK(largest_difference(plain[i].second, transposed[i].second.detach())
            < 1e-5);
  }
}

TEST_CASE("a loaded state is a copy") {
  const auto parameters = initial();
  optimizer first(lion{}, parameters), second(lion{}, parameters);
  run(first, parameters, 1, 2, 0.1);
  second.load(first.state());
  run(second, parameters, 2, 3, 0.1);
  const auto &ours = first.state()[0].tensors[0].second,
             &theirs = second.state()[0].tensors[0].second;
  CHECK_FALSE(at::equal(ours, theirs));
}

TEST_CASE("the tensors of a state have PyTorch's names") {
  const auto names_of = [](const optimizer_options& options) {
    const auto parameters = initial();
    optimizer update(options, parameters);
    run(update, parameters, 1, 2, 0.1);
    std::string text;
    for (const auto& [parameter, tensors] : update.state()) {
      text += parameter + ":";
      for (const auto& [name, value] : tensors)
        text += " " + name;
      text += "\n";
    }
    return text.substr(0, text.find("scalar"));
  };
  CHECK(names_of(sgd{}) == "matrix:\nwide:\nvector:\n");
  CHECK(names_of(sgd{.momentum = 0.5})
        == "matrix: momentum_buffer\nwide: momentum_buffer\n"
           "vector: momentum_buffer\n");
  CHECK(names_of(adafactor{})
        == "matrix: step row_var col_var\nwide: step row_var col_var\n"
           "vector: step variance\n");
  CHECK(names_of(muon{.except = "wide"})
        == "matrix: momentum_buffer\nwide: step exp_avg exp_avg_sq\n"
           "vector: step exp_avg exp_avg_sq\n");
}

TEST_CASE("a state that does not fit is refused whole, by name") {
  const auto parameters = initial();
  optimizer update(adamw{}, parameters);
  run(update, parameters, 1, 2, 0.1);
  const auto refusal = [&](const std::function<void(optimizer_state&)>& spoil) {
    const auto own = initial();
    optimizer target(adamw{}, own);
    auto state = update.state();
    spoil(state);
    std::string message;
    try {
      target.load(state);
    } catch (const error& reason) {
      CHECK(reason.code() == error_code::invalid_checkpoint);
      message = reason.what();
    }
    for (const auto& each : target.state())
      CHECK(each.tensors.empty() != message.empty());
    return message;
  };
  CHECK(refusal([](auto&) {}).empty());
  CHECK_THAT(refusal([](auto& s) { s.erase(s.begin() + 1); }),
             ContainsSubstring("state of 'wide' is missing"));
  CHECK_THAT(
    refusal([](auto& s) { s.push_back({"other"}); }),
    ContainsSubstring("'other' is present, but the model has no such"));
  CHECK_THAT(refusal([](auto& s) { s.push_back(s[2]); }),
             ContainsSubstring("state of 'vector' is there twice"));
  CHECK_THAT(refusal([](auto& s) { s[4].tensors.pop_back(); }),
             ContainsSubstring("'cube' has the tensor 'exp_avg_sq' missing"));
  CHECK_THAT(refusal([](auto& s) { s[4].tensors.push_back(s[4].tensors[0]); }),
             ContainsSubstring("'cube' has the tensor 'step' twice"));
  CHECK_THAT(refusal([](auto& s) { s[4].tensors[1].first = "mean"; }),
             ContainsSubstring("'mean', which the optimizer does not keep"));
  CHECK_THAT(refusal([](auto& s) {
               s[4].tensors[1].second = at::zeros({2, 3, 5});
             }),
             ContainsSubstring("'exp_avg' as Float[2, 3, 5], but needs "
                               "Float[2, 3, 4]"));
  CHECK_THAT(refusal([](auto& s) {
               s[4].tensors[1].second = at::zeros({2, 3, 4}, at::kDouble);
             }),
             ContainsSubstring("Double[2, 3, 4], but needs Float[2, 3, 4]"));
}

TEST_CASE("a parameter without a gradient stays as it is") {
  for (const auto& each : all_cases()) {
    INFO(each.name);
    const auto parameters = initial();
    optimizer(each.options, parameters).step(0.1);
    for (const auto& [name, value] : parameters)
      CHECK(at::equal(value, golden_values().at("initial." + name)));
  }
}

TEST_CASE("optimizers say which parameters their updates read whole") {
  const auto matrix = at::zeros({4, 6}), vector = at::zeros({6});
  for (const optimizer_options& each :
       std::initializer_list<optimizer_options>{sgd{}, adamw{}, lion{}})
    CHECK(work_of_whole(each, "block", matrix) == 0);
  CHECK(work_of_whole(adafactor{}, "block", vector) == 6);
  CHECK(work_of_whole(muon{}, "block", vector) == 0);
  CHECK(work_of_whole(muon{}, "head.weight", matrix) == 0);
  CHECK(work_of_whole(muon{}, "block", matrix)
        == work_of_whole(muon{}, "block", matrix.t()));
  CHECK(work_of_whole(muon{}, "block", matrix) == 16 * (2 * 6 + 4));
}

/// A flat shard of a tensor gets the same bits as in the whole tensor.
TEST_CASE("an elementwise optimizer gives parts the bits of the whole") {
  for (const auto& each : all_cases()) {
    if (work_of_whole(each.options, "x", at::zeros({1, 1})) != 0)
      continue;
    auto generator = at::make_generator<at::CPUGeneratorImpl>(1);
    const auto values = at::randn({1003}, generator, at::kFloat);
    const auto gradients = at::randn({5, 1003}, generator, at::kFloat);
    auto whole = values.clone().requires_grad_(true);
    parameter_list parts;
    for (const auto& [first, last] :
         {std::pair{0, 128}, {128, 129}, {129, 1003}})
      parts.emplace_back(
        std::to_string(first),
        values.slice(0, first, last).clone().requires_grad_(true));
    optimizer of_whole(each.options, {{"whole", whole}});
    optimizer of_parts(each.options, parts);
    for (std::int64_t step = 0; step < 5; ++step) {
      whole.mutable_grad() = gradients[step].clone();
      std::int64_t first = 0;
      for (auto& [name, part] : parts) {
        part.mutable_grad() =
          gradients[step].slice(0, first, first + part.numel()).clone();
        first += part.numel();
      }
      of_whole.step(0.01);
      of_parts.step(0.01);
    }
    INFO(each.name);
    std::int64_t first = 0;
    for (const auto& [name, part] : parts) {
      CHECK(at::equal(whole.slice(0, first, first + part.numel()), part));
      first += part.numel();
    }
  }
}

TEST_CASE("options of optimizers that make no sense are refused") {
  const auto refusal = [](const optimizer_options& options) -> std::string {
    try {
      optimizer(options, {});
    } catch (const error& reason) {
      return reason.what();
    }
    return {};
  };
  CHECK_THAT(refusal(sgd{.nesterov = true}),
             ContainsSubstring("requires a momentum and no dampening"));
  CHECK_THAT(refusal(sgd{.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
             ContainsSubstring("requires a momentum and no dampening"));
  CHECK_THAT(refusal(sgd{.momentum = 0.9, .dampening = 1}),
             ContainsSubstring("dampening"));
  CHECK_THAT(refusal(lion{.beta2 = 1}), ContainsSubstring("beta2"));
  CHECK_THAT(refusal(adafactor{.beta2_decay = 0.8}),
             ContainsSubstring("decay of beta2"));
  CHECK_THAT(refusal(adafactor{.threshold = 0.5}),
             ContainsSubstring("threshold"));
  CHECK_THAT(refusal(adafactor{.learning_rate = std::nan("")}),
             ContainsSubstring("learning rate"));
  CHECK_THAT(refusal(muon{.newton_schulz_steps = 0}),
             ContainsSubstring("Newton-Schulz steps"));
  CHECK_THAT(refusal(muon{.except = "[a"}), ContainsSubstring("globs"));
}

TEST_CASE("two parameters of an optimizer have different names") {
  const auto value = at::zeros({2});
  CHECK_THROWS_MATCHES(optimizer(sgd{}, {{"a", value}, {"a", value}}), error,
                       MessageMatches(ContainsSubstring("named 'a'")));
}
