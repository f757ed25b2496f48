#include "troupe/engine/models/gpt.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/tril.h>
#include <fmt/format.h>

#include <cmath>

#include "troupe/base/error.hpp"
#include "troupe/engine/models/layers.hpp"
#include "troupe/engine/stage/slices.hpp"
#include "troupe/engine/stage/stage_module.hpp"

namespace troupe {

namespace {

constexpr double deviation = 0.02;

/// Groups: 0 the embeddings, 1 the head, 2 + i block i.
at::Generator generator_of(std::uint64_t seed, std::uint64_t group) {
  return at::make_generator<at::CPUGeneratorImpl>(
    (seed * 1'000'003 + group * 7919 + 1) & 0x7FFFFFFF);
}

/// Of the last positions: each sees itself and those before it.
at::Tensor causal_mask(const at::Tensor& keys, std::int64_t positions) {
  const auto all = keys.size(2);
  return at::ones({positions, all}, keys.options().dtype(at::kBool))
    .tril(all - positions);
}

struct attention : torch::nn::Module {
  attention(std::int64_t width, std::int64_t head_count)
    : heads(head_count),
      qkv(register_module("qkv",
                          std::make_shared<linear_layer>(width, 3 * width))),
      out(
        register_module("out", std::make_shared<linear_layer>(width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    const auto b = x.size(0), t = x.size(1), d = x.size(2);
    // Unbound before the transpose: the backward then gathers the three
    // gradients in qkv's order, in one copy.
    const auto parts =
      observe(qkv, x).view({b, t, 3, heads, d / heads}).unbind(2);
    const auto keys = with_earlier_slices(parts[1].transpose(1, 2), 2);
    const auto values = with_earlier_slices(parts[2].transpose(1, 2), 2);
    const bool first = keys.size(2) == t && t > 1;
    const auto y = at::scaled_dot_product_attention(
      parts[0].transpose(1, 2), keys, values,
      first || t == 1 ? std::optional<at::Tensor>{} : causal_mask(keys, t),
      /*dropout_p=*/0.0, /*is_causal=*/first);
    return observe(out, y.transpose(1, 2).reshape({b, t, d}));
  }

  std::int64_t heads;
  std::shared_ptr<linear_layer> qkv, out;
};

struct feed_forward : torch::nn::Module {
  explicit feed_forward(std::int64_t width)
    : up(
      register_module("up", std::make_shared<linear_layer>(width, 4 * width))),
      act(register_module("act", std::make_shared<gelu_layer>())),
      down(register_module("down",
                           std::make_shared<linear_layer>(4 * width, width))) {}

  at::Tensor forward(const at::Tensor& x) {
    return observe(down, observe(act, observe(up, x)));
  }

  std::shared_ptr<linear_layer> up;
  std::shared_ptr<gelu_layer> act;
  std::shared_ptr<linear_layer> down;
};

struct block final : stage_module {
  explicit block(const gpt_options& options)
    : ln1(register_module("ln1", std::make_shared<norm_layer>(options.width))),
      attn(register_module(
        "attn", std::make_shared<attention>(options.width, options.heads))),
      ln2(register_module("ln2", std::make_shared<norm_layer>(options.width))),
      mlp(register_module("mlp",
                          std::make_shared<feed_forward>(options.width))) {}

  bool runs_in_slices() const override { return true; }

  /// Of the sum of what it reads.
  tensor_list forward(const tensor_list& inputs) override {
    auto x = inputs.at(0);
    for (std::size_t i = 1; i < inputs.size(); ++i)
      x = x + inputs[i];
    x = x + observe(attn, observe(ln1, x));
    return {x + observe(mlp, observe(ln2, x))};
  }

  void fill(const gpt_options& options, const at::Generator& generator) {
    const auto residual =
      deviation / std::sqrt(2.0 * static_cast<double>(options.layers));
    attn->qkv->fill(deviation, generator);
    attn->out->fill(residual, generator);
    mlp->up->fill(deviation, generator);
    mlp->down->fill(residual, generator);
  }

  std::shared_ptr<norm_layer> ln1;
  std::shared_ptr<attention> attn;
  std::shared_ptr<norm_layer> ln2;
  std::shared_ptr<feed_forward> mlp;
};

struct embeddings final : stage_module {
  explicit embeddings(const gpt_options& options)
    : tok(register_module("tok", std::make_shared<embedding_layer>(
                                   options.vocabulary, options.width))),
      pos(register_module("pos", std::make_shared<embedding_layer>(
                                   options.length, options.width))) {
    const auto generator = generator_of(options.seed, 0);
    tok->fill(deviation, generator);
    pos->fill(deviation, generator);
  }

  bool runs_in_slices() const override { return true; }

  tensor_list forward(const tensor_list& inputs) override {
    const auto& ids = inputs.at(0);
    const auto first = current_slice().first;
    const auto positions =
      at::arange(first, first + ids.size(1), ids.options().dtype(at::kLong));
    return {observe(tok, ids) + observe(pos, positions)};
  }

  std::shared_ptr<embedding_layer> tok, pos;
};

struct head_layer final : stage_module {
  explicit head_layer(const gpt_options& options)
    : ln_f(
      register_module("ln_f", std::make_shared<norm_layer>(options.width))),
      head(register_module("head", std::make_shared<linear_layer>(
                                     options.width, options.vocabulary))) {
    head->fill(deviation, generator_of(options.seed, 1));
  }

  bool runs_in_slices() const override { return true; }

  tensor_list forward(const tensor_list& inputs) override {
    return {observe(head, observe(ln_f, inputs.at(0)))};
  }

  std::shared_ptr<norm_layer> ln_f;
  std::shared_ptr<linear_layer> head;
};

void require_sizes(const gpt_options& options) {
  if (options.width < 1 || options.layers < 1 || options.heads < 1
      || options.length < 1 || options.vocabulary < 1)
    throw error(error_code::invalid_argument,
                "d-model, layers, heads and seq must be at least 1");
  if (options.width % options.heads != 0)
    fail(error_code::invalid_argument,
         "--d-model {} is not a multiple of --heads {}", options.width,
         options.heads);
}

}  // namespace

model gpt(const gpt_options& options) {
  require_sizes(options);
  model layers;
  layers.push_back(
    {"", [options] { return std::make_shared<embeddings>(options); }});
  for (std::int64_t i = 0; i < options.layers; ++i)
    layers.push_back(
      {fmt::format("blocks.{}", i), [options, i] {
         auto made = std::make_shared<block>(options);
         made->fill(options, generator_of(options.seed,
                                          2 + static_cast<std::uint64_t>(i)));
         return made;
       }});
  layers.push_back(
    {"", [options] { return std::make_shared<head_layer>(options); }});
  if (options.tie_embeddings)
    layers.back().ties = {{"head.weight", "tok.weight"}};
  return layers;
}

double parameter_count(const gpt_options& options) {
  const auto d = static_cast<double>(options.width);
  const auto vocabulary = static_cast<double>(options.vocabulary);
  const auto block = 12 * d * d + 13 * d;
  const auto tables = (vocabulary + static_cast<double>(options.length)) * d;
  const auto head = 2 * d + (options.tie_embeddings ? 1 : d + 1) * vocabulary;
  return tables + static_cast<double>(options.layers) * block + head;
}

}  // namespace troupe
