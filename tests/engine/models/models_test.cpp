#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/models/gpt.hpp"
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
