#include "troupe/engine/plan/search/compare.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <map>

#include "../../says.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Approx;
using troupe::testing::says;

namespace {

std::map<std::string, compared_schedule> by_name(const comparison& job) {
  std::map<std::string, compared_schedule> rows;
  for (auto& row : compare_schedules(job))
    rows.emplace(row.name, row);
  return rows;
}

}  // namespace

TEST_CASE("schedules are compared by a rank's work, however it is cut") {
  const comparison job{
    .shape = {
      .ranks = 4, .stages_per_rank = 2, .microbatches = 8, .slices = 2}};
  const auto rows = by_name(job);
  CHECK_FALSE(rows.contains("forward_only"));
  // 8 microbatches of 3 each, and the closed forms' idle parts.
  CHECK(rows.at("1f1b").makespan == Approx(24 / (1 - 3.0 / 11)));
  CHECK(rows.at("interleaved_1f1b").makespan == Approx(24 / (1 - 3.0 / 19)));
  CHECK(rows.at("interleaved_1f1b").shape.stages_per_rank == 2);
  CHECK(rows.at("seq_1f1b").makespan == Approx(24 / (1 - 3.0 / 19)));
  CHECK(rows.at("zb_v").makespan == Approx(24 + 1.5));
  CHECK(rows.at("zb_v").period == Approx(24));
  CHECK(rows.at("1f1b").in_flight == 4);
  CHECK(rows.at("zb_v").in_flight <= 4);
  CHECK(rows.at("gpipe").in_flight == 8);
  CHECK(rows.at("dualpipe").refused.empty());
  CHECK(by_name({.shape = {.ranks = 4, .microbatches = 7}})
          .at("dualpipe")
          .refused.starts_with("dualpipe: microbatches must be"));
}

TEST_CASE("the best schedule comes first, and refused ones last") {
  const auto rows =
    compare_schedules({.shape = {.ranks = 4, .microbatches = 7}});
  for (std::size_t i = 1; i < rows.size(); ++i) {
    CHECK(rows[i - 1].refused.empty() >= rows[i].refused.empty());
    if (rows[i].refused.empty())
      CHECK(rows[i - 1].period <= rows[i].period);
  }
}

TEST_CASE("memory and messages of a comparison are those of the rank's sizes") {
  const comparison job{.shape = {.ranks = 2, .microbatches = 4},
                       .sizes = stage_sizes{.kept = 10, .parameters = 100}};
  const auto rows = by_name(job);
  CHECK(rows.at("gpipe").peak_bytes == 140);
  CHECK(rows.at("1f1b").peak_bytes == 120);
  CHECK(rows.at("dualpipe").peak_bytes >= 200);  // two copies
  CHECK(rows.at("1f1b").messages == 8);
  comparison single = job;
  single.costs = parse_costs("f.1=3");
  CHECK_THROWS_MATCHES(compare_schedules(single), error,
                       says("omit costs of single stages"));
}
