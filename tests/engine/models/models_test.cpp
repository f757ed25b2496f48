#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/models/sample.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

using namespace troupe;

namespace {

const gpt_options sizes{.width = 16, .layers = 3, .heads = 2, .length = 8};

at::Tensor ids() {
  return at::full({2, 8}, 65, at::kLong);
}

}  // namespace

TEST_CASE("a GPT maps ids to logits, the same however it is cut") {
  const auto layers = gpt(sizes);
  layer_sequence whole(layers, {0, 5});
  layer_sequence front(layers, {0, 2});
  layer_sequence back(layers, {2, 5});
  const auto logits = whole.forward({ids()}).at(0);
  CHECK(logits.sizes() == at::IntArrayRef{2, 8, 256});
  CHECK(at::equal(logits, back.forward(front.forward({ids()})).at(0)));
}

TEST_CASE("parameters are counted without making them") {
  std::int64_t count = 0;
  for (const auto& p : layer_sequence(gpt(sizes), {0, 5}).parameters())
    count += p.numel();
  CHECK(parameter_count(sizes) == static_cast<double>(count));
}

TEST_CASE("a seed decides all weights") {
  auto other = sizes;
  other.seed = 2;
  const auto logits = [](const gpt_options& options) {
    return layer_sequence(gpt(options), {0, 5}).forward({ids()}).at(0);
  };
  CHECK(at::equal(logits(sizes), logits(sizes)));
  CHECK_FALSE(at::equal(logits(sizes), logits(other)));
}

TEST_CASE("a token's logits depend on what came before alone") {
  layer_sequence whole(gpt(sizes), {0, 5});
  auto changed = ids();
  changed.select(1, 7).fill_(66);
  const auto a = whole.forward({ids()}).at(0).slice(1, 0, 7);
  const auto b = whole.forward({changed}).at(0).slice(1, 0, 7);
  CHECK(at::equal(a, b));
}

TEST_CASE("sampling follows the logits, and the seed") {
  const auto next_letter = [](const at::Tensor& text) {
    auto logits = at::zeros({1, text.size(1), 256});
    const auto last = text.select(1, -1).item<std::int64_t>();
    logits.select(1, -1).select(1, last + 1).fill_(50);
    return logits;
  };
  sample_options options{.tokens = 3, .length = 4, .temperature = 0};
  CHECK(sample_text(next_letter, "a", options) == "abcd");
  const auto flat = [](const at::Tensor& text) {
    return at::zeros({1, text.size(1), 256});
  };
  options.tokens = 30;
  options.temperature = 1;
  const auto first = sample_text(flat, "a", options);
  CHECK(first == sample_text(flat, "a", options));
  options.seed = 2;
  CHECK(first != sample_text(flat, "a", options));
}
