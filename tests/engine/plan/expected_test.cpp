// The figures of tests/schedules/cases/expected.csv, written by an
// independent simulator beside PyTorch's own schedules.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <sstream>

#include "support.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;
using row = std::map<std::string, std::string>;

namespace {

std::vector<std::string> fields(const std::string& line) {
  std::vector<std::string> result;
  std::istringstream stream{line};
  for (std::string field; std::getline(stream, field, ',');)
    result.push_back(field.substr(0, field.find('\r')));
  return result;
}

std::vector<row> expected_rows() {
  std::istringstream file{read_file(testing::case_path("expected.csv"))};
  std::string line;
  std::getline(file, line);
  const auto names = fields(line);
  std::vector<row> rows;
  while (std::getline(file, line)) {
    const auto values = fields(line);
    auto& into = rows.emplace_back();
    for (std::size_t i = 0; i < values.size(); ++i)
      into[names[i]] = values[i];
  }
  return rows;
}

std::string idle_text(const simulation& times) {
  std::vector<std::string> texts;
  for (const auto idle : times.idle)
    texts.push_back(fmt::format("{:.6f}", idle));
  return fmt::format("{}", fmt::join(texts, ";"));
}

// As in_flight, but freed at I.
std::int32_t peak_freed_at_input(const plan& of) {
  std::int32_t peak = 0;
  for (std::int32_t rank = 0; rank < of.ranks(); ++rank) {
    std::int32_t in_flight = 0;
    for (const auto& what : of.lane(rank)) {
      if (what.kind == plan_op_kind::forward)
        peak = std::max(peak, ++in_flight);
      if (what.kind == plan_op_kind::backward
          || what.kind == plan_op_kind::input_backward)
        --in_flight;
    }
  }
  return peak;
}

void check_times(const row& expected, const plan& of, double message,
                 const std::string& suffix) {
  op_costs costs{.message = message};
  costs.atomic_pairs = expected.at("overlap") == "atomic";
  const auto times = simulate(of, costs);
  CHECK(fmt::format("{}", times.makespan) == expected.at("makespan" + suffix));
  CHECK(fmt::format("{:.6f}", times.bubble) == expected.at("bubble" + suffix));
  CHECK(fmt::format("{:.6f}", times.span_bubble)
        == expected.at("span_bubble" + suffix));
  CHECK(idle_text(times) == expected.at("idle_per_rank" + suffix));
}

void check_row(const row& expected, const plan& of) {
  check_times(expected, of, 0, "");
  check_times(expected, of, 0.25, "_hop");
  const auto peaks = simulate(of).in_flight;
  CHECK(fmt::format("{}", fmt::join(peaks, ";"))
        == expected.at("peak_per_rank"));
  CHECK(std::to_string(*std::max_element(peaks.begin(), peaks.end()))
        == expected.at("peak"));
  CHECK(std::to_string(peak_freed_at_input(of))
        == expected.at("peak_freed_at_I"));
}

}  // namespace

TEST_CASE("PyTorch's schedules take as long as expected, in both forms") {
  const auto rows = expected_rows();
  REQUIRE(rows.size() == 7);
  for (const auto& expected : rows)
    for (const auto form : {".compute.csv", ".comms.csv"}) {
      INFO(expected.at("case") << form << " " << expected.at("overlap"));
      check_row(expected,
                load_plan(testing::case_path(expected.at("case") + form)));
    }
}

TEST_CASE("our schedules are no worse than PyTorch's of the same name") {
  const auto no_worse = [](const std::string& name, const plan& ours) {
    const auto theirs = load_plan(testing::case_path(name + ".compute.csv"));
    CHECK(simulate(ours).makespan <= simulate(theirs).makespan);
    CHECK(std::ranges::max(simulate(ours).in_flight)
          <= std::ranges::max(simulate(theirs).in_flight));
  };
  no_worse("gpipe_p2_v1_m4",
           testing::make_plan("gpipe", {.ranks = 2, .microbatches = 4}));
  no_worse("1f1b_p4_v1_m8",
           testing::make_plan("1f1b", {.ranks = 4, .microbatches = 8}));
  no_worse(
    "interleaved1f1b_p2_v2_m4",
    testing::make_plan("interleaved_1f1b",
                       {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
  no_worse(
    "interleavedzb_p2_v2_m4",
    testing::make_plan("interleaved_zb",
                       {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
  no_worse("zbv_p2_v2_m2",
           testing::make_plan(
             "zb_v", {.ranks = 2, .stages_per_rank = 2, .microbatches = 2}));
  no_worse(
    "dualpipev_p2_v2_m4",
    testing::make_plan("dualpipe_v",
                       {.ranks = 2, .stages_per_rank = 2, .microbatches = 4}));
}
