#include "troupe/actors/job/tensor_admission.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include "../says.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("messages may grow by steps, not at once") {
  constexpr std::int64_t MiB = std::int64_t{1} << 20;
  const auto plans =
    std::make_shared<const job_plans>(std::vector{std::make_shared<const plan>(
      compile(make_schedule("gpipe", {.ranks = 2, .microbatches = 2})))});
  const auto receives = [&](tensor_admission& at, std::int64_t bytes) {
    envelope header;
    header.from_stage = 1;
    header.message = 0;
    at.check(1, header, {{at::kByte, {bytes}}});
  };
  const auto layout = make_layout(0, 2, 1, 2);
  tensor_admission small(layout, plans, 100);
  receives(small, 0);
  receives(small, 8);
  receives(small, 64 * MiB);  // a long prompt after one of a token
  CHECK_THROWS_MATCHES(
    receives(small, 256 * 64 * MiB + 1), error,
    says("after at most 67108864 so far, up to 17179869184"));
  receives(small, 256 * 64 * MiB);
  tensor_admission fresh(layout, plans, 100), large(layout, plans, 100 * MiB);
  receives(fresh, 8);
  CHECK_THROWS_MATCHES(receives(fresh, 64 * MiB + 1), error,
                       says("from stage 1 to stage 0"));
  receives(large, 8);
  receives(large, 400 * MiB);
}
