#include "troupe/engine/data/row_order.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

#include "../../says.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("each source gives its rows in ascending order, none twice") {
  for (const auto& weights : std::vector<std::vector<double>>{
         {1}, {1, 1}, {3, 1}, {0.7, 0.2, 0.1}, {1, 100}, {5, 3, 2, 7, 11}}) {
    const row_mixture mixture(weights);
    double total = 0;
    for (const auto weight : weights)
      total += weight;
    std::vector<std::int64_t> counts(weights.size(), 0);
    for (std::int64_t row = 0; row < 3 * row_mixture::block + 17; ++row) {
      const auto place = mixture.of(row);
      REQUIRE(place.row == counts[place.source]++);
      for (std::size_t s = 0; s < weights.size(); ++s) {
        const auto exact = weights[s] / total * static_cast<double>(row + 1);
        REQUIRE(std::abs(static_cast<double>(counts[s]) - exact) < 4);
      }
    }
  }
}

TEST_CASE("one source gives all rows") {
  const row_mixture mixture({2.5});
  CHECK(mixture.of(123456789).row == 123456789);
}

TEST_CASE("weights that can't be meant are refused") {
  const auto refused = [](const std::vector<double>& weights, const char* why) {
    CHECK_THROWS_MATCHES(row_mixture(weights), error, says(why));
  };
  refused({}, "needs a source");
  refused({1, 0}, "weight is 0;");
  refused({1, -2}, "weight is -2;");
  refused({1, NAN}, "weight is nan;");
  refused({1e308, 1e308}, "the sum of the sources' weights is too large");
  refused({1, 1e-9}, "less than one row of 1024");
}
