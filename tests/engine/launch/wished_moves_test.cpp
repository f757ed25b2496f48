#include "troupe/engine/launch/authority/wished_moves.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using membership::rank_move;

TEST_CASE("a wished hosting is made by moves of ranks that are elsewhere") {
  const membership::epoch now{
    .number = 3, .members = {4, 7}, .hosting = {4, 7, 4}};
  const std::vector<rank_move> wanted{{1, 4}, {2, 7}};
  CHECK((wished_moves({3, {0, 0, 1}}, now) == wanted));
  CHECK(wished_moves({3, {0, 1, 0}}, now).empty());
  CHECK(wished_moves({2, {0, 0, 1}}, now).empty());
  CHECK(wished_moves({3, {0, 0}}, now).empty());
  CHECK(wished_moves({3, {0, 0, 2}}, now).empty());
  CHECK(wished_moves({3, {0, 0, -1}}, now).empty());
}
