#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>

#include <chrono>
#include <random>
#include <thread>

#include "small_model.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a pipelined step gives the plain loop's bits") {
  const small_case what{};
  INFO(describe(what));
  CHECK(compare_with_plain(what) == "");
}
