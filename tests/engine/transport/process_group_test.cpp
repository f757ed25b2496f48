#include "troupe/engine/transport/process_group.hpp"

#include <ATen/Context.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cmath>

#include "joined_meshes.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

mesh_events no_events() {
  mesh_events made;
  made.arrived = [](std::int32_t, frame) {};
  return made;
}

/// A program for each process of a job, whose mesh has been started.
std::vector<std::string> in_job(std::int32_t processes,
                                const std::function<void(mesh&)>& program) {
  joined_meshes meshes(processes);
  std::vector<std::shared_ptr<mesh>> kept = meshes.all;
  auto errors = in_all(meshes, [&](const std::shared_ptr<mesh>& job) {
    job->start(no_events());
    program(*job);
  });
  meshes.all = std::move(kept);
  return errors;
}

const std::vector<std::int32_t> all_of_three{0, 1, 2};

/// Of values for which the order of additions tells in the bits.
std::vector<at::Tensor> uneven(std::int64_t members, at::IntArrayRef sizes) {
  at::manual_seed(5);
  std::vector<at::Tensor> made;
  for (std::int64_t m = 0; m < members; ++m)
    made.push_back(at::randn(sizes) * std::pow(1000.0, m));
  return made;
}

}  // namespace

TEST_CASE("an all-reduce has the bits of one addition after the other") {
  for (const std::vector<std::int64_t>& sizes :
       {std::vector<std::int64_t>{7, 5}, {2}, {}, {0}}) {
    const auto given = uneven(3, sizes);
    const auto sum = given[0] + given[1] + given[2];
    std::atomic<int> right = 0;
    CHECK(in_job(3,
                 [&](mesh& job) {
                   process_group group(job, all_of_three);
                   const auto& mine =
                     given[static_cast<std::size_t>(group.rank())];
                   right += at::equal(group.all_reduce(mine), sum);
                   right += at::equal(group.all_reduce(mine, reduce_kind::mean),
                                      sum / 3);
                   right += at::equal(
                     group.all_reduce(mine, reduce_kind::max),
                     at::maximum(at::maximum(given[0], given[1]), given[2]));
                 })
          == std::vector<std::string>(3));
    CHECK(right == 9);
  }
}

TEST_CASE("a reduce-scatter, then an all-gather, is an all-reduce") {
  const auto given = uneven(3, {6, 4});
  const auto sum = given[0] + given[1] + given[2];
  std::atomic<int> right = 0;
  CHECK(in_job(3,
               [&](mesh& job) {
                 process_group group(job, all_of_three);
                 const auto rank = group.rank();
                 const auto own =
                   group.reduce_scatter(given[static_cast<std::size_t>(rank)]);
                 right += at::equal(own, sum.narrow(0, 2 * rank, 2));
                 right += at::equal(group.all_gather(own), sum);
               })
        == std::vector<std::string>(3));
  CHECK(right == 6);
}

TEST_CASE("a broadcast brings the root's tensor, of whatever shape and type") {
  const auto given = at::arange(12, at::kLong).view({3, 4});
  std::atomic<int> right = 0;
  CHECK(in_job(3,
               [&](mesh& job) {
                 process_group group(job, all_of_three);
                 for (std::int32_t root = 0; root < 3; ++root) {
                   const auto got = group.broadcast(
                     group.rank() == root ? given + root : at::Tensor{}, root);
                   right += at::equal(got, given + root);
                 }
               })
        == std::vector<std::string>(3));
  CHECK(right == 9);
}

TEST_CASE("what was given may be changed when a call has returned") {
  std::atomic<int> right = 0;
  CHECK(in_job(2,
               [&](mesh& job) {
                 process_group group(job, {0, 1});
                 auto mine = at::full({4'000'000}, 1.0F);
                 const auto got = group.broadcast(mine, 0);
                 mine.fill_(7);
                 right += at::equal(got, at::full({4'000'000}, 1.0F));
               })
        == std::vector<std::string>(2));
  CHECK(right == 2);
}

TEST_CASE("groups are parts of a job, and one process is one too") {
  std::atomic<int> right = 0;
  CHECK(in_job(4,
               [&](mesh& job) {
                 const auto own = job.place().process;
                 process_group half(
                   job, own < 2 ? std::vector{0, 1} : std::vector{2, 3});
                 process_group alone(job, {own});
                 const auto mine = at::full({1}, own, at::kFloat);
                 const auto sum = half.all_reduce(mine);
                 right += sum.item<float>() == (own < 2 ? 1 : 5);
                 right +=
                   at::equal(alone.all_gather(alone.all_reduce(mine)), mine);
                 right += half.size() == 2 && half.rank() == own % 2;
               })
        == std::vector<std::string>(4));
  CHECK(right == 12);
}

TEST_CASE("members that call differently learn both calls") {
  const auto errors = in_job(2, [](mesh& job) {
    process_group group(job, {0, 1});
    if (group.rank() == 0)
      group.all_reduce(at::full({4}, 1.0F));
    else
      group.all_reduce(at::full({5}, 1.0F));
  });
  for (const auto& each : errors)
    CHECK_THAT(each, ContainsSubstring("all_reduce (sum) of Float[4] among")
                       && ContainsSubstring("all_reduce (sum) of Float[5]")
                       && ContainsSubstring("the same calls"));
}

TEST_CASE("a member that leaves is named, whichever it is") {
  for (std::int32_t leaves = 0; leaves < 3; ++leaves) {
    joined_meshes meshes(3);
    const auto errors = in_all(meshes, [&](std::shared_ptr<mesh> job) {
      job->start(no_events());
      process_group group(*job, all_of_three);
      group.all_reduce(at::full({4}, 1.0F));
      if (group.rank() != leaves)
        group.all_gather(at::full({4}, 1.0F));
    });
    for (std::int32_t p = 0; p < 3; ++p)
      CHECK(errors[static_cast<std::size_t>(p)].starts_with(
              fmt::format("process {} has left", leaves))
            == (p != leaves));
  }
}

TEST_CASE("what no group is, or no collective takes, is refused") {
  // Before anything is sent; by one thread, as Catch's checks are not for more.
  const auto check = [](mesh& job) {
    for (const std::vector<std::int32_t>& members :
         {std::vector<std::int32_t>{},
          {1},
          {1, 0},
          {0, 0, 1},
          {0, 1, 2},
          {-1, 0}})
      CHECK_THROWS_AS(process_group(job, members), error);
    process_group group(job, {0, 1});
    CHECK_THROWS_MATCHES(
      group.reduce_scatter(at::full({3}, 1.0F)), error,
      MessageMatches(ContainsSubstring("a multiple of that")));
    CHECK_THROWS_AS(group.all_gather(at::Tensor{}), error);
    CHECK_THROWS_AS(group.all_gather(at::full({}, 1.0F)), error);
    CHECK_THROWS_AS(group.broadcast(at::full({3}, 1.0F), 2), error);
    CHECK_THROWS_AS(group.all_reduce(at::arange(3), reduce_kind::mean), error);
  };
  CHECK(in_job(2,
               [&](mesh& job) {
                 if (job.place().leads())
                   check(job);
               })
        == std::vector<std::string>(2));
}

TEST_CASE("what would wait for a mesh that was not started is refused") {
  const joined_meshes meshes(2);
  auto& job = *meshes.all[0];
  const auto why = MessageMatches(
    ContainsSubstring("process 0 waits for process 1, but its mesh has not "
                      "been started; call mesh::start first"));
  process_group group(job, {0, 1});
  CHECK_THROWS_MATCHES(group.all_reduce(at::full({4}, 1.0F)), error, why);
  CHECK_THROWS_MATCHES(job.take(1), error, why);
  CHECK_THROWS_MATCHES(job.gather({}), error, why);
}
