#include "troupe/schedules/cpp_text.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "cases/dualpipe_p2_m4.inc"
#include "cases/seq_1f1b_p2_m2.inc"
#include "cases/seq_1f1b_p2_m2_call.inc"
#include "cases/two_bw_p2_m4.inc"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe_paths.hpp"

using namespace troupe;

namespace {

std::string code(const std::string& name) {
  return read_file(std::string{TROUPE_SOURCE_DIR} + "/tests/schedules/cases/"
                   + name);
}

constexpr schedule_shape two_slices{.ranks = 2, .microbatches = 2, .slices = 2};

}  // namespace

TEST_CASE("the code of lanes compiles, and makes the same schedule") {
  const auto copies =
    make_schedule("dualpipe", {.ranks = 2, .microbatches = 4});
  CHECK(to_cpp(copies) == code("dualpipe_p2_m4.inc"));
  CHECK(schedule_dualpipe() == copies);
  auto slices = make_schedule("seq_1f1b", two_slices);
  slices.name = "two slices";
  CHECK(to_cpp(slices) == code("seq_1f1b_p2_m2.inc"));
  CHECK(schedule_two_slices() == slices);
  const auto updates = make_schedule("two_bw", {.ranks = 2, .microbatches = 4});
  CHECK(to_cpp(updates) == code("two_bw_p2_m4.inc"));
  CHECK(schedule_two_bw() == updates);
}

TEST_CASE("the code of a built-in schedule compiles, and makes it") {
  CHECK(to_cpp_call("seq_1f1b", two_slices) == code("seq_1f1b_p2_m2_call.inc"));
  CHECK(schedule_seq_1f1b() == make_schedule("seq_1f1b", two_slices));
}

TEST_CASE("names of schedules become names of functions") {
  CHECK(cpp_name("1f1b") == "schedule_1f1b");
  CHECK(cpp_name("my \"own\".csv") == "schedule_my__own__csv");
}

TEST_CASE("code has no room for slices on stages placed otherwise") {
  auto lanes = make_schedule("seq_1f1b", two_slices);
  lanes.placement = placement{.ranks = 2, .rank_by_stage = {{1, 0}}};
  CHECK_THROWS_MATCHES(
    to_cpp(lanes), error,
    Catch::Matchers::Message(
      "seq_1f1b: schedule::build can't express slices on stages that are not "
      "placed looped; write the text form (--format schedule)"));
}
