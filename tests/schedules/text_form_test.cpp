#include "troupe/schedules/text_form.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "troupe/base/error.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

namespace {

constexpr auto slices = R"(troupe schedule 1
name two_slices
microbatches 1
slices 2
placement 0 1
rank 0: 0F0.0 0F0.1 0B0.1 0B0.0
rank 1: 1F0.0 1F0.1 1B0.1 1B0.0
)";

constexpr auto copies = R"(troupe schedule 1
name both_ways
microbatches 2
slices 1
placement 0 1
placement 1 0
rank 0: 0F0 1F1@1 (0F2;1B1@1) 0B0 0B2
rank 1: 0F1@1 1F0 1B0 1F2 1B2 0B1@1
)";

std::string with(std::string text, std::string_view old,
                 std::string_view other) {
  return text.replace(text.find(old), old.size(), other);
}

}  // namespace

TEST_CASE("slices, copies and placement survive the text form") {
  CHECK(to_text_form(from_text_form(slices, "x")) == slices);
  const auto both = with(copies, "microbatches 2", "microbatches 3");
  const auto read = from_text_form(both, "x");
  CHECK(to_text_form(read) == both);
  CHECK(read.placement.rank_of(0, 1) == 1);
  CHECK(read.lanes[0][1].copy == 1);
}

TEST_CASE("built-ins survive the text form") {
  const auto lanes = make_schedule(
    "interleaved_1f1b", {.ranks = 2, .stages_per_rank = 2, .microbatches = 3});
  CHECK(from_text_form(to_text_form(lanes), "x") == lanes);
}

TEST_CASE("a malformed text form is refused with its line") {
  const auto refused = [](const std::string& text, const std::string& why) {
    CHECK_THROWS_MATCHES(from_text_form(text, "x"), error,
                         Catch::Matchers::Message(why));
  };
  refused(with(slices, "slices 2", "slices 0"),
          "x, line 4: slices must be in 1..32767, but is 0");
  refused(with(slices, "slices 2", "slice 2"),
          "x, line 4: expected 'slices ...', found 'slice 2'");
  refused(with(slices, "microbatches 1", "microbatches one"),
          "x, line 3: 'one' is not a number");
  refused(with(slices, "placement 0 1", "placement 0 -1"),
          "x, line 5: each copy has one rank, from 0, for each stage");
  refused(with(slices, "0F0.1", "0F0,1"),
          "x, line 6: '0F0,1': ',1' follows the action; remove it");
  refused(with(slices, "0F0.1", "0SEND_F0"),
          "x, line 6: '0SEND_F0': a lane holds only compute ops");
  refused(
    with(slices, "0F0.1", "0F0.2"),
    "x, line 6, rank 0, op 1: 0F0.2 is outside the 2 stages, 1 microbatches, 2 "
    "slices and 1 copies");
  refused(
    with(with(slices, "slices 2", "slices 1"), "0F0.0", "0F0"),
    "x, line 6, rank 0, op 1: 0F0.1 is outside the 2 stages, 1 microbatches, 1 "
    "slices and 1 copies");
  refused(with(slices, "0F0.1", "0F0.1@1"),
          "x, line 6, rank 0, op 1: 0F0.1@1 is outside the 2 stages, 1 "
          "microbatches, 2 slices and 1 copies");
  refused(with(slices, " 1B0.0", ""),
          "x, line 7, rank 1, op 3: 1B0.0 is missing");
  refused(with(slices, "slices 2", "slices 2\nupdate_every 1"),
          "x: a schedule that updates within a step has one copy of each "
          "stage, and no slices");
  refused(with(slices, "rank 1", "rank 2"),
          "x, line 7: expected 'rank 1: ...', found 'rank 2: 1F0.0 1F0.1 "
          "1B0.1 1B0.0'");
  refused(std::string{slices} + "more\n",
          "x, line 7: text after the last rank");
  refused("troupe schedule 2\n", "x, line 1: expected 'troupe schedule 1'");
}

TEST_CASE("lines may end in any number of CR") {
  const auto read = from_text_form(
    "troupe schedule 1\r\nname a\r\r\r\nmicrobatches 1\nslices 1\n"
    "placement 0\nrank 0: 0F0\n",
    "x");
  CHECK(read.name == "a");
  CHECK(to_text_form(from_text_form(to_text_form(read), "x"))
        == to_text_form(read));
}

TEST_CASE("sizes whose product can't be counted are refused") {
  std::string text =
    "troupe schedule 1\nname a\nmicrobatches 268435456\nslices 16384\n"
    "placement";
  for (int stage = 0; stage < 1 << 22; ++stage)
    text += " 0";  // 2^28 x 2^14 x 2^22: 0, if counted in 64 bits
  CHECK_THROWS_AS(from_text_form(text + "\nrank 0: 0F0.0\n", "x"), error);
}

TEST_CASE("a microbatch takes one copy of the stages") {
  CHECK_THROWS_MATCHES(
    from_text_form("troupe schedule 1\nname c\nmicrobatches 1\nslices 1\n"
                   "placement 0 1\nplacement 1 0\n"
                   "rank 0: 0F0 1F0@1 1B0@1 0B0\nrank 1: \n",
                   "x"),
    error,
    Catch::Matchers::Message(
      "x, line 7, rank 0, op 1: 1F0@1 is in copy 1 of its stage, but other ops "
      "of microbatch 0 are in copy 0; a microbatch uses one copy"));
}

TEST_CASE("what is missing is named with its copy, and that copy's rank") {
  CHECK_THROWS_MATCHES(
    from_text_form(
      with(with(copies, "microbatches 2", "microbatches 3"), " 0B1@1", ""),
      "x"),
    error,
    Catch::Matchers::Message("x, line 8, rank 1, op 5: 0B1@1 is missing"));
}
