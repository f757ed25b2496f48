#include "troupe/engine/stage/shard_layout.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>

#include "troupe/base/error.hpp"

using namespace troupe;

TEST_CASE("10 elements in 4 shards: the first holds them, the others padding") {
  const shard_layout layout({10}, 4);
  CHECK(layout.length(0) == 128);
  CHECK(layout.has_equal_shards());
  CHECK(layout.padded() == 512);
  CHECK(layout.content(0) == 10);
  CHECK((layout.pieces(0) == std::vector<shard_layout::piece>{{0, 0, 10, 0}}));
  for (const std::int32_t shard : {1, 2, 3}) {
    CHECK(layout.content(shard) == 0);
    CHECK(layout.pieces(shard).empty());
  }
}

TEST_CASE("a parameter may lie in several shards") {
  const shard_layout layout({3, 0, 40, 1}, 2, 32);
  CHECK(layout.length(1) == 64);
  CHECK((layout.pieces(0)
         == std::vector<shard_layout::piece>{{0, 0, 3, 0}, {2, 0, 32, 32}}));
  CHECK((layout.pieces(1)
         == std::vector<shard_layout::piece>{{2, 32, 8, 64}, {3, 0, 1, 96}}));
  CHECK(layout.content(1) == 33);
}

TEST_CASE("the pieces of all shards are all elements, each once") {
  std::mt19937 random(5);
  const std::vector<std::int64_t> usual = {0,   1,   2,   7,   127,
                                           128, 129, 509, 1021};
  for (int i = 0; i < 200; ++i) {
    std::vector<std::int64_t> sizes(random() % 6);
    for (auto& size : sizes)
      size = usual[random() % usual.size()];
    const shard_layout layout(sizes, 1 + std::int32_t(random() % 9),
                              random() % 2 == 0 ? 128 : 1 + random() % 5);
    const bool aligned_cuts = layout.length(0) % 32 == 0;
    std::vector<std::int64_t> next(sizes.size(), 0);
    std::int64_t total = 0;
    for (std::int32_t q = 0; q < layout.shards(); ++q) {
      std::int64_t end = layout.begin(q);
      for (const auto& piece : layout.pieces(q)) {
        CHECK(piece.count > 0);
        CHECK(piece.begin == next[piece.parameter]);
        CHECK((piece.row - piece.begin) % 32 == 0);
        CHECK((!aligned_cuts || piece.begin % 32 == 0));
        CHECK(piece.row >= end);
        CHECK(piece.row < end + 32);
        end = piece.row + piece.count;
        next[piece.parameter] += piece.count;
        total += piece.count;
      }
      CHECK(layout.content(q) <= layout.length(q));
      if (!layout.pieces(q).empty())
        CHECK(end <= layout.begin(q) + layout.content(q));
    }
    CHECK(next == sizes);
    CHECK(layout.elements() == total);
    CHECK(layout.padded() >= total);
  }
}

TEST_CASE(
  "parameters that are kept whole have the owners with the least work") {
  const auto layout =
    shard_layout::of_whole({6, 0, 40, 9, 5}, {6, 1, 40, 9, 5}, 3, 32, 1);
  using piece = shard_layout::piece;
  CHECK((layout.pieces(0)
         == std::vector<piece>{{0, 0, 6, 0, true}, {4, 0, 5, 32, true}}));
  CHECK((layout.pieces(1) == std::vector<piece>{{2, 0, 40, 64, true}}));
  CHECK((layout.pieces(2) == std::vector<piece>{{3, 0, 9, 128, true}}));
  CHECK(layout.padded() == 160);
  CHECK(layout.content(0) == 37);
  CHECK_FALSE(layout.has_equal_shards());
  CHECK(shard_layout::of_whole({4}, {1}, 2, 32).pieces(1).empty());
  CHECK_THROWS_AS(shard_layout::of_whole({4}, {1}, 0), error);
}

TEST_CASE("owners of many whole parameters have about the same work") {
  std::mt19937 random(3);
  for (int i = 0; i < 100; ++i) {
    std::vector<std::int64_t> sizes(20 + random() % 20);
    for (auto& size : sizes)
      size = 1 + random() % 1000;
    const std::int32_t shards = 1 + random() % 4;
    const auto layout = shard_layout::of_whole(
      sizes, {sizes.begin(), sizes.end()}, shards, 128, random() % 9);
    std::vector<std::int64_t> owned(sizes.size(), 0), sums;
    for (std::int32_t q = 0; q < shards; ++q) {
      sums.push_back(0);
      for (const auto& piece : layout.pieces(q)) {
        CHECK(piece.row % 32 == 0);
        sums.back() += owned[piece.parameter] = piece.count;
      }
      CHECK(layout.length(q) % 128 == 0);
    }
    CHECK(owned == sizes);
    CHECK(std::ranges::max(sums) <= std::ranges::min(sums) + 1000);
  }
}

TEST_CASE("no shards, or a multiple of nothing, are refused") {
  CHECK_THROWS_AS(shard_layout({1}, 0), error);
  CHECK_THROWS_AS(shard_layout({1}, 2, 0), error);
}
