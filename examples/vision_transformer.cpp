// Trains a small vision transformer (Dosovitskiy et al., 2021), split into
// pipeline stages on two ranks, to tell stripes, checkers and discs apart:
//   vision_transformer [SCHEDULE [STAGES_PER_RANK]]
// It draws the images itself. Every schedule with one update in a step gives
// the same losses.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/train.hpp"

using namespace troupe;

constexpr std::int64_t side = 16, patch = 4, classes = 3;
constexpr auto patch_pixels = patch * patch;
constexpr auto patches = side * side / patch_pixels;
constexpr std::int64_t width = 32, heads = 4;
constexpr std::uint64_t blocks = 4;

at::Generator seeded(std::uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

/// Float images [rows, 1, side, side] and their classes, int64 [rows]. They
/// depend on the index alone, not on earlier calls.
microbatch_data draw_images(std::int64_t index, std::int64_t rows) {
  auto generator = seeded(1000 + static_cast<std::uint64_t>(index));
  const auto draw = [&](double least, double most) {
    return least + (most - least) * at::rand({rows, 1, 1, 1}, generator);
  };
  const auto labels = at::randint(classes, {rows}, generator, at::kLong);
  const auto frequency = draw(0.8, 1.2), angle = draw(0, 3);
  const auto left = draw(0, 6), top = draw(0, 6), radius = draw(3, 6);
  const auto x = at::arange(side, at::kFloat), y = x.view({side, 1});

  const auto stripes =
    (frequency * (angle.cos() * x + angle.sin() * y) + left).sin();
  const auto checkers =
    (frequency * x + left).sin() * (frequency * y + top).sin();
  const auto discs =
    radius.square() - (x - 5 - left).square() - (y - 5 - top).square();
  const auto shapes = at::cat({stripes, checkers, discs}, 1)
                        .take_along_dim(labels.view({rows, 1, 1, 1}), 1);
  const auto noise = 0.3 * at::randn({rows, 1, side, side}, generator);
  return {{shapes.sign() + noise}, {labels}, {}, rows * patches};
}

using linear_pointer = std::shared_ptr<linear_layer>;

linear_pointer linear(std::int64_t inputs, std::int64_t outputs) {
  return std::make_shared<linear_layer>(inputs, outputs);
}
auto norm() {
  return std::make_shared<norm_layer>(width);
}

/// Images to vectors [rows, patches, width]: a linear layer of each patch's
/// pixels, plus learned position embeddings.
struct patch_embedding final : stage_module {
  explicit patch_embedding(std::uint64_t seed) {
    auto generator = seeded(seed);
    pixels->fill(0.2, generator);
    positions = register_parameter(
      "positions", 0.1 * at::randn({patches, width}, generator));
  }
  tensor_list forward(const tensor_list& inputs) override {
    const auto cut = inputs[0].unfold(2, patch, patch).unfold(3, patch, patch);
    return {observe(pixels, cut.reshape({-1, patches, patch_pixels}))
            + positions};
  }
  linear_pointer pixels =
    register_module("pixels", linear(patch_pixels, width));
  at::Tensor positions;
};

/// Pre-norm: attention of every patch to all patches, then an MLP.
struct encoder_block final : stage_module {
  explicit encoder_block(std::uint64_t seed) {
    auto generator = seeded(seed);
    for (const auto& each : {qkv, out, up, down})
      each->fill(0.1, generator);
  }
  tensor_list forward(const tensor_list& inputs) override {
    const auto x = inputs[0] + attention(observe(norm_1, inputs[0]));
    const auto inner = observe(gelu, observe(up, observe(norm_2, x)));
    return {x + observe(down, inner)};
  }
  at::Tensor attention(const at::Tensor& x) {
    const auto parts = observe(qkv, x)
                         .view({-1, patches, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4});
    const auto mixed =
      at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
    return observe(out, mixed.transpose(1, 2).reshape(x.sizes()));
  }
  std::shared_ptr<norm_layer> norm_1 = register_module("norm_1", norm());
  linear_pointer qkv = register_module("qkv", linear(width, 3 * width));
  linear_pointer out = register_module("out", linear(width, width));
  std::shared_ptr<norm_layer> norm_2 = register_module("norm_2", norm());
  linear_pointer up = register_module("up", linear(width, 4 * width));
  std::shared_ptr<gelu_layer> gelu =
    register_module("gelu", std::make_shared<gelu_layer>());
  linear_pointer down = register_module("down", linear(4 * width, width));
};

/// Logits [rows, classes] of the mean over the patches.
struct classifier final : stage_module {
  explicit classifier(std::uint64_t seed) { logits->fill(0.1, seeded(seed)); }
  tensor_list forward(const tensor_list& inputs) override {
    return {observe(logits, observe(last_norm, inputs[0]).mean(1))};
  }
  std::shared_ptr<norm_layer> last_norm = register_module("norm", norm());
  linear_pointer logits = register_module("logits", linear(width, classes));
};

/// Each layer has a seed of its own, so every call of its `make` returns the
/// same parameters.
model vision_transformer() {
  model layers{
    {"patches", [] { return std::make_shared<patch_embedding>(1); }}};
  for (std::uint64_t i = 0; i < blocks; ++i)
    layers.push_back({fmt::format("blocks.{}", i),
                      [i] { return std::make_shared<encoder_block>(2 + i); }});
  layers.push_back(
    {"head", [] { return std::make_shared<classifier>(2 + blocks); }});
  return layers;
}

void train(const schedule& order) {
  trainer_options options;
  options.schedule = order;
  options.numerics.optimizer = adamw{.learning_rate = 3e-3};
  options.numerics.loss = cross_entropy_loss();
  trainer run(vision_transformer(), options);
  const auto images =
    make_source([](std::int64_t index) { return draw_images(index, 16); });
  for (const auto& step : run.train(images, 40))
    fmt::print("step {} loss {:.4f}\n", step.source.step, step.losses[0].value);

  const auto fresh = draw_images(run.position(), 500);
  const auto correct =
    run.infer(fresh.inputs)[0].argmax(1).eq(fresh.targets[0]);
  fmt::print("accuracy {:.3f} on 500 new images\n",
             correct.sum().item<double>() / 500);
}

int main(int argc, char** argv) try {
  const std::string name = argc > 1 ? argv[1] : "1f1b";
  if (argc > 3 || name == "--help") {
    fmt::print("usage: vision_transformer [SCHEDULE [STAGES_PER_RANK]]\n");
    return argc > 3 ? 2 : 0;
  }
  const auto stages = argc > 2 ? std::atoi(argv[2]) : 1;
  train(make_schedule(
    name, {.ranks = 2, .stages_per_rank = stages, .microbatches = 4}));
} catch (const error& reason) {
  fmt::print(stderr, "{}\n", reason.what());
  return exit_code(reason.code());
}
