#include <ATen/Parallel.h>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <set>
#include <thread>

#include "../random_delays.hpp"
#include "small_model.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Indices into the lists of values below, one per dimension.
using choice = std::array<int, 9>;

const std::vector<std::string> schedules = {"gpipe",         "1f1b",
                                            "eager_1f1b",    "interleaved_1f1b",
                                            "breadth_first", "depth_first"};
constexpr std::array microbatches = {1, 4, 7, 8};
constexpr choice sizes = {6, 4, 2, 4, 2, 2, 2, 2, 2};

small_case case_of(const choice& at) {
  return {.schedule = schedules[static_cast<std::size_t>(at[0])],
          .ranks = at[1] + 1,
          .stages_per_rank = at[2] + 1,
          .microbatches = microbatches[static_cast<std::size_t>(at[3])],
          .data_parallel = at[4] + 1,
          .use_sgd = at[5] == 1,
          .recompute = at[6] == 1,
          .clip = at[7] == 1 ? 0.5 : 0,
          .order = at[8] == 1 ? lane_order::ready_first : lane_order::strict};
}

bool is_legal(const choice& at) {
  const auto what = case_of(at);
  try {
    make_schedule(what.schedule,
                  {what.ranks, what.stages_per_rank, what.microbatches});
    return true;
  } catch (const error&) {
    return false;
  }
}

std::vector<choice> all_choices() {
  std::vector<choice> all;
  choice at{};
  for (bool more = true; more;) {
    if (is_legal(at))
      all.push_back(at);
    more = false;
    for (std::size_t i = 0; i < at.size() && !more; ++i) {
      more = ++at[i] < sizes[i];
      at[i] = more ? at[i] : 0;
    }
  }
  return all;
}

/// Picks cases so that any two values of two dimensions that occur together in
/// `all` occur together in a case.
std::vector<choice> pairwise(std::vector<choice> all) {
  std::ranges::shuffle(all, std::mt19937{1});
  std::set<std::array<std::size_t, 4>> met;
  std::vector<choice> cases;
  for (const auto& at : all) {
    const auto before = met.size();
    for (std::size_t i = 0; i < at.size(); ++i)
      for (std::size_t j = i + 1; j < at.size(); ++j)
        met.insert({i, static_cast<std::size_t>(at[i]), j,
                    static_cast<std::size_t>(at[j])});
    if (met.size() > before)
      cases.push_back(at);
  }
  return cases;
}

void check_all(const std::vector<choice>& choices) {
  for (const auto& at : choices) {
    const auto what = case_of(at);
    INFO(describe(what));
    CHECK(compare_with_plain(what) == "");
  }
}

void check_all_of(const std::string& name) {
  std::vector<choice> choices;
  for (const auto& at : all_choices())
    if (case_of(at).schedule == name)
      choices.push_back(at);
  CHECK(choices.size() > 100);
  check_all(choices);
}

}  // namespace

TEST_CASE("pipelined parameters equal the plain loop's, bit for bit") {
  const auto choices = pairwise(all_choices());
  CHECK(choices.size() > 20);
  check_all(choices);
}

// A test case per schedule, as they take long and may run in parallel.
#define CHECK_ALL_OF(name)                         \
  TEST_CASE("every combination of " name           \
            " equals the plain loop, bit for bit", \
            "[.full]") {                           \
    check_all_of(name);                            \
  }
CHECK_ALL_OF("gpipe")
CHECK_ALL_OF("1f1b")
CHECK_ALL_OF("eager_1f1b")
CHECK_ALL_OF("interleaved_1f1b")
CHECK_ALL_OF("breadth_first")
CHECK_ALL_OF("depth_first")

TEST_CASE("random delays in every actor change no bit") {
  const auto delay = random_delays(3);
  small_case what{.schedule = "interleaved_1f1b",
                  .stages_per_rank = 2,
                  .data_parallel = 2,
                  .clip = 0.5};
  for (int i = 0; i < 40; ++i) {
    what.order = i % 2 == 0 ? lane_order::strict : lane_order::ready_first;
    what.overlaps = i % 4 < 2;
    CHECK(compare_with_plain(what, 2, delay) == "");
  }
}

TEST_CASE("in bf16 versions of parameters are cast as the plain loop's are") {
  for (const auto* schedule : {"weight_stash", "two_bw"})
    CHECK(compare_with_plain({.schedule = schedule,
                              .ranks = 3,
                              .microbatches = 6,
                              .autocast = at::kBFloat16},
                             3)
          == "");
}

TEST_CASE("in bf16 the pipeline is the plain loop too, and learns") {
  const small_case what{.schedule = "interleaved_1f1b",
                        .stages_per_rank = 2,
                        .data_parallel = 2,
                        .recompute = true,
                        .clip = 0.5,
                        .autocast = at::kBFloat16};
  CHECK(compare_with_plain(what) == "");
  trainer halves(model_for(what), options_for(what));
  auto other = what;
  other.autocast.reset();
  trainer whole(model_for(other), options_for(other));
  for (int i = 0; i < 10; ++i) {
    const auto a = halves.step(small_text()).summary.losses.at(0).value;
    const auto b = whole.step(small_text()).summary.losses.at(0).value;
    CHECK(a != b);
    CHECK(std::abs(a - b) < 0.05);
  }
  for (const auto& [name, value] : halves.parameters())
    CHECK(value.scalar_type() == at::kFloat);
}

TEST_CASE("the bits don't depend on the threads of whoever makes a run") {
  const auto before = at::get_num_threads();
  for (const int threads : {1, 2}) {
    at::set_num_threads(threads);
    CHECK(compare_with_plain({}, 2) == "");
    CHECK(at::get_num_threads() == threads);
  }
  at::set_num_threads(before);
}
