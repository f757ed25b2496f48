#include "troupe/engine/membership/choose_step.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::membership;

namespace {

constexpr job_shape two_ranks{.pipeline_ranks = 2};
constexpr auto applied = copy_kind::applied;
constexpr auto prepared = copy_kind::prepared;
constexpr auto snapshot = copy_kind::snapshot;

}  // namespace

TEST_CASE("the newest step of which every state has a copy is chosen") {
  const std::vector<member_copies> held{
    {1, {{0, 7, applied}, {0, 4, snapshot}}},
    {2, {{1, 6, applied}, {1, 4, snapshot}}}};
  const auto choice = choose_step(two_ranks, held, {1, 2}, {});
  CHECK(choice.step == 4);
  CHECK(choice.givers == hosting_map{1, 2});
}

TEST_CASE("a prepared step is rolled forward if somebody has applied it") {
  const std::vector<member_copies> held{
    {1, {{0, 7, applied}}}, {2, {{1, 6, applied}, {1, 7, prepared}}}};
  CHECK(choose_step(two_ranks, held, {1, 2}, {}).step == 7);
}

TEST_CASE("a step that all have prepared is rolled forward") {
  const std::vector<member_copies> held{
    {1, {{0, 6, applied}, {0, 7, prepared}}},
    {2, {{1, 6, applied}, {1, 7, prepared}}}};
  CHECK(choose_step(two_ranks, held, {1, 2}, {}).step == 7);
}

TEST_CASE("a prepared step that nobody is known to have applied is dropped") {
  const std::vector<member_copies> held{
    {1, {{0, 6, applied}, {0, 7, prepared}}}, {2, {{1, 6, applied}}}};
  CHECK(choose_step(two_ranks, held, {1, 2}, {}).step == 6);
}

TEST_CASE("replicas give each other's states, shards do not") {
  job_shape shape{.pipeline_ranks = 2, .replicas = 2};
  const std::vector<member_copies> held{
    {1, {{0, 5, applied}, {1, 5, applied}}}};
  const auto choice = choose_step(shape, held, {1, 1, 2, 2}, {});
  CHECK(choice.step == 5);
  CHECK(choice.givers == hosting_map{1, 1, 1, 1});
  shape.is_sharded = true;
  const auto none = choose_step(shape, held, {1, 1, 2, 2}, {});
  CHECK(!none.step);
  CHECK(none.lost_ranks == std::vector{2, 3});
}

TEST_CASE("giving is divided among the holders, and a host gives to itself") {
  const job_shape shape{.pipeline_ranks = 1, .replicas = 4};
  const std::vector<member_copies> held{{1, {{0, 3, applied}}},
                                        {2, {{1, 3, applied}}}};
  CHECK(choose_step(shape, held, {1, 2, 3, 4}, {}).givers
        == hosting_map{1, 2, 1, 2});
}

TEST_CASE("a checkpoint is taken if nothing newer is whole") {
  const std::vector<member_copies> held{
    {1, {{0, 9, applied}, {0, 4, snapshot}}}};
  const auto choice = choose_step(two_ranks, held, {1, 1}, 4);
  CHECK(choice.step == 4);
  CHECK(choice.givers == hosting_map{1, no_member});
  CHECK(choose_step(two_ranks, {}, {1, 1}, 4).givers
        == hosting_map{no_member, no_member});
}

TEST_CASE("without a common step, the ranks that lack one are named") {
  const std::vector<member_copies> held{{1, {{0, 9, applied}}}};
  const auto choice = choose_step(two_ranks, held, {1, 1}, {});
  CHECK(!choice.step);
  CHECK(choice.lost_ranks == std::vector{1});
}
