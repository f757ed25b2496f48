#include "troupe/schedules/forward_part.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"

using namespace troupe;

TEST_CASE("the forward part keeps placement and order of forwards") {
  const auto whole = make_schedule("1f1b", {.ranks = 2, .microbatches = 2});
  const auto part = forward_part(whole);
  CHECK(to_csv(part) == "0F0,0F1\r\n1F0,1F1\r\n");
  CHECK(part.placement == whole.placement);
}
