#include "troupe/engine/generation/sampling.hpp"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cmath>
#include <limits>
#include <map>

#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

/// How often each token is drawn in many turns.
std::map<std::int64_t, int> drawn(const at::Tensor& logits,
                                  const sampling_options& options,
                                  int turns = 4000) {
  std::map<std::int64_t, int> counts;
  for (int turn = 0; turn < turns; ++turn)
    ++counts[next_token(logits, options, turn)];
  return counts;
}

const auto logits =
  at::tensor({std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)});

}  // namespace

TEST_CASE(
  "a temperature of 0 takes the most likely token, the first of equals") {
  CHECK(next_token(logits, {.temperature = 0}, 7) == 1);
  CHECK(next_token(at::zeros({5}), {.temperature = 0}, 0) == 0);
}

TEST_CASE(
  "tokens come as often as they are likely, sharper when it is colder") {
  const auto counts = drawn(logits, {.temperature = 1});
  CHECK(std::abs(counts.at(0) - 400) < 100);
  CHECK(std::abs(counts.at(1) - 1600) < 150);
  CHECK(std::abs(counts.at(2) - 800) < 150);
  // 0.1^2 : 0.4^2 : 0.2^2 : 0.3^2 = 1 : 16 : 4 : 9
  const auto colder = drawn(logits, {.temperature = 0.5});
  CHECK(std::abs(colder.at(1) - 4000 * 16 / 30) < 150);
  CHECK(std::abs(colder.at(0) - 4000 / 30) < 60);
}

TEST_CASE("top-k leaves the most likely tokens, of equals the first ones") {
  const auto counts = drawn(logits, {.temperature = 1, .top_k = 2});
  CHECK(counts.size() == 2);
  CHECK(std::abs(counts.at(1) - 4000 * 4 / 7) < 150);
  CHECK(counts.contains(3));
  CHECK(drawn(logits, {.top_k = 1}).size() == 1);
  CHECK(drawn(logits, {.top_k = 9}).size() == 4);
  const auto equal = drawn(at::zeros({6}), {.top_k = 3}, 200);
  CHECK(equal.size() == 3);
  CHECK(equal.rbegin()->first == 2);
}

TEST_CASE(
  "top-p leaves the fewest tokens that make up that much, behind top-k") {
  CHECK(drawn(logits, {.temperature = 1, .top_p = 0.39}).size() == 1);
  CHECK(drawn(logits, {.temperature = 1, .top_p = 0.6}).size() == 2);
  CHECK(drawn(logits, {.temperature = 1, .top_p = 0.8}).size() == 3);
  CHECK(drawn(logits, {.temperature = 1, .top_p = 1}).size() == 4);
  // After top_k the probabilities are 0.4 / 0.7 = 0.57 and 0.43.
  CHECK(drawn(logits, {.temperature = 1, .top_k = 2, .top_p = 0.5}).size()
        == 1);
  CHECK(drawn(logits, {.temperature = 1, .top_p = 1e-9}).size() == 1);
}

TEST_CASE("a seed and a turn decide the token") {
  const auto flat = at::zeros({256});
  const auto text = [&](std::uint64_t seed) {
    std::vector<std::int64_t> ids;
    for (int turn = 0; turn < 20; ++turn)
      ids.push_back(next_token(flat, {.temperature = 1, .seed = seed}, turn));
    return ids;
  };
  CHECK(text(1) == text(1));
  CHECK(text(1) != text(2));
  CHECK(text(1)[0] != text(1)[1]);
}

TEST_CASE("options and logits that can't be meant are refused") {
  const auto refuses = [](const sampling_options& options, const char* what) {
    CHECK_THROWS_MATCHES(require_legal(options), error,
                         MessageMatches(ContainsSubstring(what)));
  };
  refuses({.temperature = -1}, "a temperature of -1");
  refuses({.temperature = std::numeric_limits<double>::infinity()},
          "a temperature of inf");
  refuses({.temperature = NAN}, "a temperature of nan");
  refuses({.top_k = -1}, "a top-k of -1");
  refuses({.top_p = 0}, "a top-p of 0");
  refuses({.top_p = 1.5}, "a top-p of 1.5");
  refuses({.top_p = NAN}, "a top-p of nan");
  CHECK_NOTHROW(require_legal(sampling_options{}));
  CHECK_THROWS_MATCHES(next_token(at::tensor({1.0, NAN}), {}, 0), error,
                       MessageMatches(ContainsSubstring("not finite")));
}
