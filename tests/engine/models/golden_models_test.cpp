// Decoders compute what Hugging Face's transformers computes
// (tests/golden/models/make_models.py).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

#include "troupe/base/fnv_hash.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/stage/plain_loop.hpp"
#include "troupe/engine/stage/stage_module.hpp"
#include "troupe_paths.hpp"

using namespace troupe;

namespace {

constexpr std::uint64_t golden_ratio = 0x9E3779B97F4A7C15;

std::uint64_t mixed(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

/// As `weight` of make_models.py.
void fill_weight(const std::string& name, at::Tensor& parameter) {
  fnv_hash hash;
  hash.add(name);
  const bool is_vector = parameter.dim() == 1;
  const bool is_norm = is_vector && name.ends_with("weight");
  auto* values = parameter.data_ptr<float>();
  for (std::int64_t i = 0; i < parameter.numel(); ++i) {
    const auto z =
      mixed(hash.value() + (static_cast<std::uint64_t>(i) + 1) * golden_ratio);
    const auto v = 2 * (static_cast<double>(z >> 40) / 16777216.0) - 1;
    values[i] = static_cast<float>(is_norm     ? 1 + 0.1 * v
                                   : is_vector ? 0.1 * v
                                               : 0.2 * v);
  }
}

at::Tensor ids_of(std::int64_t step, std::int64_t length,
                  std::int64_t vocabulary) {
  std::vector<std::int64_t> ids;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(2 * length); ++i)
    ids.push_back(static_cast<std::int64_t>(
      (mixed(0x5EED + static_cast<std::uint64_t>(step) * 1'000'003
             + (i + 1) * golden_ratio)
       >> 33)
      % static_cast<std::uint64_t>(vocabulary)));
  return at::from_blob(ids.data(), {2, length}, at::kLong).clone();
}

microbatch_data microbatch_of(const at::Tensor& ids) {
  const auto next = at::cat({ids.narrow(1, 1, ids.size(1) - 1),
                             at::full({ids.size(0), 1}, -100, at::kLong)},
                            1);
  return {{ids}, {next}, {}, ids.numel()};
}

at::Tensor samples_of(const at::Tensor& all) {
  const auto flat = all.detach().reshape({-1});
  const auto n = flat.numel(), count = std::min<std::int64_t>(n, 24);
  return flat.index_select(
    0, (at::arange(count, at::kLong) * n).floor_divide(count));
}

/// The largest difference, relative to the largest of those expected; NaN is
/// not compared.
double distance(const at::Tensor& from, const at::Tensor& expected) {
  const auto counts = expected.isnan().logical_not();
  if (!counts.any().item<bool>())
    return 0;
  const auto a = from.masked_select(counts), b = expected.masked_select(counts);
  return (a - b).abs().max().item<double>()
         / std::max(1e-3, b.abs().max().item<double>());
}

struct golden_case {
  std::map<std::string, at::Tensor> tensors;
  std::string config;
  std::string prefix;

  at::Tensor at(const std::string& name) const {
    return tensors.at(prefix + name);
  }
};

/// The reference's name of a parameter: GPT-NeoX's head has another in files.
std::string name_in_table(const std::string& name) {
  return name == "embed_out.weight" ? "lm_head.weight" : name;
}

void check_forward(const golden_case& wanted, const model& layers,
                   const decoder_options& options) {
  std::vector<std::shared_ptr<stage_module>> modules;
  tensor_list values{wanted.at("ids")};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    modules.push_back(make_layer(layers, i));
    values = modules.back()->forward(values);
  }
  CHECK(distance(samples_of(values.at(0)), wanted.at("logits")) < 1e-5);
  cross_entropy_loss()(values, microbatch_of(wanted.at("ids")))
    .at(0)
    .value.backward();
  std::map<std::string, at::Tensor> gradients;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] :
         troupe::parameters_of(layers[i].name, *modules[i])) {
      const bool is_tied =
        options.tied && name == options.names.head + ".weight";
      auto& sum = gradients[is_tied ? options.names.tokens + ".weight" : name];
      sum = sum.defined() ? sum + value.grad() : value.grad();
    }
  double power = 0;
  for (const auto& [name, value] : gradients) {
    INFO(name);
    power += value.square().sum().item<double>();
    CHECK(
      distance(samples_of(value), wanted.at("gradient." + name_in_table(name)))
      < 1e-4);
  }
  CHECK(
    std::abs(std::sqrt(power) / wanted.at("gradient_norm").item<double>() - 1)
    < 1e-4);
}

void check_training(const golden_case& wanted, const model& layers,
                    const decoder_options& options) {
  plain_options how;
  how.numerics.optimizer = adamw{.learning_rate = 1e-3, .weight_decay = 0.01};
  plain_loop loop(layers, how);
  const auto length = wanted.at("ids").size(1);
  for (std::int64_t step = 0; step < 4; ++step) {
    if (step == 3)
      for (const auto& [name, value] : loop.parameters()) {
        INFO(name);
        CHECK(distance(samples_of(value),
                       wanted.at("trained." + name_in_table(name)))
              < 1e-5);
      }
    const auto done = loop.step([&](std::int64_t) {
      return microbatch_of(ids_of(step, length, options.vocabulary));
    });
    CHECK(std::abs(done.loss - wanted.at("loss")[step].item<double>()) < 1e-5);
  }
}

void check_case(const golden_case& wanted) {
  model_config config(wanted.config, "config.json");
  const auto options = read_decoder(config);
  const auto layers =
    decoder(options, [&](const std::string& name, at::Tensor& parameter) {
      const bool is_tied =
        options.tied && name == options.names.head + ".weight";
      fill_weight(
        is_tied ? options.names.tokens + ".weight" : name_in_table(name),
        parameter);
    });
  CHECK(ids_of(0, wanted.at("ids").size(1), options.vocabulary)
          .equal(wanted.at("ids")));
  check_forward(wanted, layers, options);
  check_training(wanted, layers, options);
}

}  // namespace

TEST_CASE("decoders compute what transformers does") {
  const auto type = GENERATE(as<std::string>(), "llama", "mistral", "qwen2",
                             "qwen3", "olmo2", "gpt2", "gpt_neox");
  const safetensors_file file(
    fmt::format(TROUPE_SOURCE_DIR "/tests/golden/models/{}.safetensors", type));
  golden_case wanted;
  for (const auto& entry : file.entries())
    wanted.tensors.emplace(entry.name, file.read(entry));
  int cases = 0;
  for (int k = 0; k < 10; ++k)
    for (const auto* version : {"config", "config_v4"}) {
      INFO(type << " " << k << " " << version);
      wanted.config = file.metadata().at(fmt::format("{}.{}", version, k));
      wanted.prefix = fmt::format("{}.", k);
      check_case(wanted);
      ++cases;
    }
  CHECK(cases == 20);
}
