#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <string>
#include <vector>

#include "../engine/transport/joined_meshes.hpp"
#include "job_trainings.hpp"
#include "troupe/actors/job/job_layout.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// What processes say that want to share these ranks.
std::string refusal_of(const small_case& what, std::int32_t processes) {
  joined_meshes meshes(processes);
  const auto errors =
    in_all(meshes, [&](const auto& job) { trainer_for(what, job); });
  for (const auto& each : errors)
    CHECK(each == errors.front());
  return errors.front();
}

}  // namespace

TEST_CASE("ranks that can't be divided leave one more to the first processes") {
  using hosts = std::vector<std::int32_t>;
  CHECK(make_layout(0, 3, 1, 8).hosting == hosts{0, 0, 0, 1, 1, 1, 2, 2});
  CHECK(make_layout(0, 4, 2, 3).hosting == hosts{0, 0, 1, 1, 2, 3});
  CHECK(make_layout(0, 2, 2, 2).hosting == hosts{0, 0, 1, 1});
  CHECK(make_layout(2, 3, 1, 8).ranks_here() == 2);
  CHECK(make_layout(2, 3, 1, 2, {1, 1}).ranks_here() == 0);
}

TEST_CASE("any hosting of the ranks trains the same bits") {
  small_case pipeline{.schedule = "zb_h1", .ranks = 8, .microbatches = 8};
  check_job_bits(pipeline, 3);
  pipeline.hosting = {0, 0, 0, 0, 0, 0, 1, 2};
  check_job_bits(pipeline, 3);
  pipeline.hosting = {2, 0, 1, 2, 0, 1, 2, 0};
  check_job_bits(pipeline, 3);
}

TEST_CASE("a process may host no rank, and the leading one none") {
  check_job_bits({.ranks = 2, .clip = 0.5, .hosting = {1, 2}}, 3);
  check_job_bits({.ranks = 2, .hosting = {0, 0}}, 2);
  check_job_bits({.ranks = 2, .data_parallel = 2, .hosting = {2, 1, 1, 2}}, 4);
}

TEST_CASE("replicas, shards and ties do not mind who hosts them") {
  const std::vector<std::int32_t> mixed{1, 0, 0, 2};
  check_job_bits({.data_parallel = 2, .clip = 0.5, .hosting = mixed}, 3);
  small_case sharded;
  sharded.data_parallel = 2;
  sharded.hosting = mixed;
  sharded.sharding.mode = shard_mode::all;
  check_job_bits(sharded, 3);
  check_job_bits({.data_parallel = 2, .tied = true, .hosting = mixed}, 3);
  check_job_bits({.schedule = "dualpipe",
                  .ranks = 4,
                  .microbatches = 8,
                  .hosting = {1, 0, 1, 1}},
                 2);
  check_job_bits({.schedule = "zb_v",
                  .ranks = 3,
                  .stages_per_rank = 2,
                  .hosting = {1, 1, 0}},
                 2);
}

TEST_CASE("a hosting that does not fit the job is refused") {
  CHECK_THAT(refusal_of({.ranks = 2}, 3),
             ContainsSubstring("are 2 x 1 = 2, too few for 3 processes; start "
                               "at most 2, or name the process"));
  CHECK_THAT(refusal_of({.ranks = 3, .hosting = {0, 1}}, 2),
             ContainsSubstring("(--hosting) is for ranks x replicas = 2, but 3 "
                               "x 1 are 3"));
  CHECK_THAT(refusal_of({.ranks = 2, .hosting = {0, 2}}, 2),
             ContainsSubstring("(--hosting) names process 2; the job has "
                               "processes 0 to 1"));
}
