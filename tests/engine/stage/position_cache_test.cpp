#include "troupe/engine/stage/module/slices.hpp"

#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <catch2/catch_test_macros.hpp>

#include "troupe/base/error.hpp"

using namespace troupe;

TEST_CASE("a position is behind those before, in each call's own buffer") {
  position_cache cache;
  std::vector<tensor_list> appended(2);
  for (const std::int64_t length : {3, 1, 1, 4, 1, 1, 1})
    for (std::size_t call = 0; call < 2; ++call) {
      const auto dimension = call == 0 ? 2 : 1;
      auto sizes = std::vector<std::int64_t>{2, 4, 5};
      sizes[static_cast<std::size_t>(dimension)] = length;
      appended[call].push_back(at::rand(sizes));
      CHECK(at::equal(cache.append(call, appended[call].back(), dimension),
                      at::cat(appended[call], dimension)));
    }
  CHECK(cache.calls() == 2);
  cache.keep_rows({1});
  const auto next = at::rand({1, 4, 1});
  appended[0] = {at::cat(appended[0], 2).slice(0, 1), next};
  CHECK(at::equal(cache.append(0, next, 2), at::cat(appended[0], 2)));
}

TEST_CASE("dimensions may be counted from the last one") {
  position_cache cache;
  const auto first = at::rand({2, 3, 8}), second = at::rand({2, 1, 8});
  cache.append(0, first, -2);
  CHECK(at::equal(cache.append(0, second, -2), at::cat({first, second}, 1)));
  CHECK_THROWS(cache.append(1, first, -4));
}

TEST_CASE("buffers grow geometrically, and views stay as they were") {
  position_cache cache;
  const auto row = at::rand({1, 1, 8});
  const auto first = cache.append(0, row, 1);
  int moves = 0;
  auto bytes = cache.bytes();
  for (int i = 0; i < 999; ++i) {
    cache.append(0, at::rand({1, 1, 8}), 1);
    moves += cache.bytes() != bytes ? 1 : 0;
    bytes = cache.bytes();
  }
  CHECK(moves == 10);
  CHECK(bytes == 1024 * 8 * 4);
  CHECK(at::equal(first, row));
}

TEST_CASE("tensors of another form are refused") {
  position_cache cache;
  cache.append(0, at::rand({2, 1, 8}), 1);
  CHECK_THROWS_AS(cache.append(0, at::rand({1, 1, 8}), 1), error);
  CHECK_THROWS_AS(cache.append(0, at::rand({2, 1, 8}).to(at::kDouble), 1),
                  error);
}
