// Decoders compute the same as Hugging Face's transformers
// (tests/golden/models/make_models.py).
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <ranges>

#include "sum_of_losses.hpp"
#include "troupe/base/fnv_hash.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/models/decoders/decoder_types.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
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

/// Like `weight` of make_models.py, from one of its elements on.
void fill_weight(const std::string& name, at::Tensor& parameter,
                 std::int64_t first) {
  fnv_hash hash;
  hash.add(name);
  const bool is_vector = parameter.dim() == 1;
  const bool is_norm = is_vector && name.ends_with("weight");
  auto* values = parameter.data_ptr<float>();
  for (std::int64_t i = 0; i < parameter.numel(); ++i) {
    const auto element = static_cast<std::uint64_t>(first + i + 1);
    const auto z = mixed(hash.value() + element * golden_ratio);
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

double largest(const at::Tensor& values) {
  return values.abs().max().item<double>();
}

/// The largest difference relative to the largest expected value.
double distance(const at::Tensor& from, const at::Tensor& expected) {
  return largest(from - expected) / largest(expected);
}

/// "model.layers.0." of "model.layers.0.self_attn.k_proj.bias"; the full name
/// of a parameter outside the numbered layers.
std::string layer_of(const std::string& name) {
  const auto number = name.find_first_of("0123456789");
  return number == name.npos ? name
                             : name.substr(0, name.find('.', number) + 1);
}

struct golden_case {
  std::map<std::string, at::Tensor> tensors;
  std::string config;
  std::string prefix;

  at::Tensor at(const std::string& name) const {
    return tensors.at(prefix + name);
  }
};

/// Where the reference has a parameter: GPT-NeoX's head has another name in
/// files, and experts are apart in files.
struct place_in_table {
  std::string name;
  std::int64_t first = 0;  // element
};

place_in_table place_of(const std::string& name, const decoder_options& o) {
  if (name == o.names.head + ".weight")
    return {o.tied ? o.names.tokens + ".weight" : "lm_head.weight"};
  const auto mlp = name.find(o.names.mlp + ".");
  if (o.experts.count == 0 || mlp == name.npos)
    return {name};
  const auto layer = name.substr(0, mlp) + "mlp.";
  const auto inside = name.substr(mlp + o.names.mlp.size() + 1);
  if (!inside.starts_with("experts."))
    return {layer + inside};
  const auto expert = std::stoll(inside.substr(8));
  const auto size = o.experts.inner * o.width;
  if (inside.find(o.experts.names.down + ".") != inside.npos)
    return {layer + "experts.down_proj", expert * size};
  const bool is_up = inside.find(o.experts.names.up + ".") != inside.npos;
  return {layer + "experts.gate_up_proj",
          (2 * expert + (is_up ? 1 : 0)) * size};
}

/// Whole tensors of the reference, by name, from the parts of a model; those of
/// the same place are added.
class gathered_tensors {
 public:
  void add(const place_in_table& place, const at::Tensor& part) {
    auto& sum = parts_[place.name][place.first];
    sum = sum.defined() ? sum + part.reshape({-1}) : part.reshape({-1});
  }
  std::map<std::string, at::Tensor> all() const {
    std::map<std::string, at::Tensor> whole;
    for (const auto& [name, by_element] : parts_) {
      tensor_list in_order;
      for (const auto& [first, part] : by_element)
        in_order.push_back(part);
      whole.emplace(name, at::cat(in_order));
    }
    return whole;
  }

 private:
  std::map<std::string, std::map<std::int64_t, at::Tensor>> parts_;
};

/// Rounding errors of a gradient are in proportion to the gradients that reach
/// its layer, not to itself: that of a key's bias is nearly zero, as softmax
/// ignores what is added to all scores, and its relative error is any number.
void check_gradients(const gathered_tensors& gathered,
                     const golden_case& golden) {
  const auto all = gathered.all();
  std::map<std::string, double> scales;
  for (const auto& name : all | std::views::keys) {
    auto& scale = scales[layer_of(name)];
    scale = std::max(scale, largest(golden.at("gradient." + name)));
  }
  for (const auto& [name, value] : all) {
    INFO(name);
    const auto expected = golden.at("gradient." + name);
    CHECK(largest(samples_of(value) - expected)
          < 1e-5 * scales.at(layer_of(name)));
  }
}

void check_forward(const golden_case& golden, const model& layers,
                   const decoder_options& options) {
  std::vector<std::shared_ptr<stage_module>> modules;
  tensor_list before, values{golden.at("ids")};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    modules.push_back(make_layer(layers, i));
    before = std::exchange(values, modules.back()->forward(values));
  }
  CHECK(distance(samples_of(values.at(0)), golden.at("logits")) < 1e-5);
  const auto data = microbatch_of(golden.at("ids"));
  const auto own = modules.back()->losses(before, data);
  sum_of_losses(own ? *own : cross_entropy_loss()(values, data)).backward();
  gathered_tensors gradients;
  for (std::size_t i = 0; i < layers.size(); ++i)
    for (const auto& [name, value] : parameters_of(layers[i].name, *modules[i]))
      gradients.add(place_of(name, options), value.grad());
  check_gradients(gradients, golden);
  double power = 0;
  for (const auto& [name, value] : gradients.all())
    power += value.square().sum().item<double>();
  CHECK(
    std::abs(std::sqrt(power) / golden.at("gradient_norm").item<double>() - 1)
    < 1e-4);
}

void check_training(const golden_case& golden, const model& layers,
                    const decoder_options& options) {
  plain_options how;
  how.numerics.optimizer =
    adamw{.learning_rate = 1e-3, .epsilon = 1e-3, .weight_decay = 0.01};
  plain_loop loop(layers, how);
  const auto length = golden.at("ids").size(1);
  for (std::int64_t step = 0; step < 4; ++step) {
    if (step == 3) {
      gathered_tensors trained;
      for (const auto& [name, value] : loop.parameters())
        trained.add(place_of(name, options), value);
      for (const auto& [name, value] : trained.all()) {
        INFO(name);
        CHECK(distance(samples_of(value), golden.at("trained." + name)) < 1e-5);
      }
    }
    const auto done = loop.step([&](std::int64_t) {
      return microbatch_of(ids_of(step, length, options.vocabulary));
    });
    CHECK(std::abs(done.loss - golden.at("loss")[step].item<double>()) < 1e-5);
  }
}

void check_case(const golden_case& golden) {
  model_config config(golden.config, "config.json");
  auto options = read_decoder(config);
  options.choices.router_loss = true;
  const auto layers =
    decoder(options, [&](const std::string& name, at::Tensor& parameter) {
      const auto place = place_of(name, options);
      fill_weight(place.name, parameter, place.first);
    });
  CHECK(ids_of(0, golden.at("ids").size(1), options.vocabulary)
          .equal(golden.at("ids")));
  check_forward(golden, layers, options);
  check_training(golden, layers, options);
}

}  // namespace

TEST_CASE("documents of a row are computed as if they were alone") {
  const auto type = GENERATE(as<std::string>(), "llama", "mistral", "qwen3",
                             "gpt_neox", "gpt2");
  const safetensors_file file(
    fmt::format(TROUPE_SOURCE_DIR "/tests/golden/models/{}.safetensors", type));
  model_config config(file.metadata().at("config.0"), "config.json");
  auto options = read_decoder(config);
  options.rotary.kind = rotary_options::scaling::none;
  options.choices.documents = true;
  const auto layers = decoder(options, fresh_parameters(options, 1));
  const auto logits_of = [&](const at::Tensor& ids, bool documents) {
    const at::NoGradGuard no_grad;
    auto source = make_source([&](std::int64_t) {
      return microbatch_data{{ids}, {}, {}, 0};
    });
    if (documents)
      source = with_document_starts(source, 5);
    auto data = source->at(0);
    tensor_list values{data.inputs};
    for (std::size_t i = 0; i < layers.size(); ++i)
      values = make_layer(layers, i)->forward(values, data.arguments);
    return values.at(0);
  };
  auto ids = ids_of(0, 12, options.vocabulary).narrow(0, 0, 1).clone();
  ids.masked_fill_(ids == 5, 6);
  ids[0][4] = 5;
  ids[0][5] = 5;
  const auto all = logits_of(ids, true);
  for (const auto& [first, count] :
       {std::pair{0, 5}, std::pair{5, 1}, std::pair{6, 6}}) {
    const auto alone = logits_of(ids.narrow(1, first, count), false);
    CHECK(distance(all.narrow(1, first, count), alone) < 1e-4);
  }
  CHECK(distance(logits_of(ids, false), all) > 1e-3);
}

TEST_CASE("decoders compute what transformers does") {
  const auto type =
    GENERATE(as<std::string>(), "llama", "mistral", "qwen2", "qwen3", "olmo2",
             "gpt2", "gpt_neox", "mixtral", "qwen3_moe");
  const safetensors_file file(
    fmt::format(TROUPE_SOURCE_DIR "/tests/golden/models/{}.safetensors", type));
  golden_case golden;
  for (const auto& entry : file.entries())
    golden.tensors.emplace(entry.name, file.read(entry));
  int cases = 0;
  for (int k = 0; k < 10; ++k)
    for (const auto* version : {"config", "config_v4"}) {
      INFO(type << " " << k << " " << version);
      golden.config = file.metadata().at(fmt::format("{}.{}", version, k));
      golden.prefix = fmt::format("{}.", k);
      check_case(golden);
      ++cases;
    }
  CHECK(cases == 20);
}
