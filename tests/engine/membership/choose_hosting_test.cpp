#include "troupe/engine/membership/choose_hosting.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;

namespace {

constexpr job_shape eight{.pipeline_ranks = 8};

}  // namespace

TEST_CASE("the first hosting divides ranks in order, as evenly as possible") {
  CHECK(choose_hosting(eight, {1, 2, 3}, {})
        == hosting_map{1, 1, 2, 2, 2, 3, 3, 3});
  CHECK(choose_hosting({.pipeline_ranks = 2}, {1, 2, 3}, {})
        == hosting_map{2, 3});
}

TEST_CASE("ranks of living members stay, others go to the least loaded") {
  const hosting_map before{1, 1, 1, 2, 2, 2, 3, 3};
  CHECK(choose_hosting(eight, {1, 3}, before)
        == hosting_map{1, 1, 1, 3, 1, 3, 3, 3});
}

TEST_CASE("a spare takes the place of a lost member") {
  const hosting_map before{1, 1, 2, 2, 3, 3, 4, 4};
  CHECK(choose_hosting(eight, {1, 2, 4, 9}, before)
        == hosting_map{1, 1, 2, 2, 9, 9, 4, 4});
}

TEST_CASE("replicas of a rank go to different members where loads allow it") {
  const job_shape shape{.pipeline_ranks = 2, .replicas = 2};
  // Members 1 and 2 have one rank each; rank 0's replica is in member 1.
  CHECK(choose_hosting(shape, {1, 2}, {3, 2, 1, 3}) == hosting_map{2, 2, 1, 1});
}

TEST_CASE("ranks move as wished, and balance levels loads") {
  const hosting_map before{1, 1, 1, 1, 1, 1, 1, 2};
  CHECK(choose_hosting(eight, {1, 2}, before, {.moves = {{0, 2}, {3, 9}}})
        == hosting_map{2, 1, 1, 1, 1, 1, 1, 2});
  CHECK(choose_hosting(eight, {1, 2, 3}, before, {.is_balanced = true})
        == hosting_map{1, 1, 1, 2, 3, 2, 3, 2});
}

TEST_CASE("a rank avoids a member unless there is no other") {
  CHECK(
    choose_hosting({.pipeline_ranks = 2}, {1, 2}, {1, 1}, {.avoided = {{0, 1}}})
    == hosting_map{2, 1});
  CHECK(
    choose_hosting({.pipeline_ranks = 2}, {1}, {1, 1}, {.avoided = {{0, 1}}})
    == hosting_map{1, 1});
}

TEST_CASE("a rank's snapshots are kept by another member that stays") {
  epoch of{.members = {1, 2, 3}, .hosting = {1, 2, 3}, .released = {}};
  const job_shape shape{.pipeline_ranks = 3};
  CHECK(neighbour_of(shape, of, 0) == 2);
  CHECK(neighbour_of(shape, of, 2) == 1);
  of.released = {2};
  CHECK(neighbour_of(shape, of, 0) == 3);
  of = {.members = {1}, .hosting = {1, 1, 1}};
  CHECK(neighbour_of(shape, of, 0) == no_member);
}

TEST_CASE("members that neither host nor keep snapshots are unneeded") {
  const job_shape shape{.pipeline_ranks = 2};
  const epoch of{.members = {1, 2, 3, 4}, .hosting = {1, 2}};
  CHECK(unneeded_members(shape, of, true) == std::vector<member_id>{4});
  CHECK(unneeded_members(shape, of, false) == std::vector<member_id>{3, 4});
}

TEST_CASE("a newcomer gets the last ranks of those that have most") {
  const auto moves = share_of({1, 1, 1, 2, 2, 3}, 9);
  REQUIRE(moves.size() == 1);
  CHECK(moves[0] == rank_move{2, 9});
  CHECK(share_of({1, 1, 1, 1}, 9) == std::vector<rank_move>{{3, 9}, {2, 9}});
  CHECK(share_of({1, 2, 3}, 9).empty());
}
