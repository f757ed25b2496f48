#include "troupe/monitors/dashboard/curve.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <limits>

using namespace troupe;

TEST_CASE("a curve keeps all values until it is full, then means of them") {
  curve points(4);
  for (int i = 1; i <= 4; ++i)
    points.add(i, i, i);
  CHECK(points.since(0).points.size() == 4);
  CHECK(points.since(0).points[3].mean() == 4);
  points.add(5, 50, 5);
  const auto all = points.since(0);
  REQUIRE(all.points.size() == 3);
  CHECK(all.points[0].step == 2);
  CHECK(all.points[0].mean() == 1.5);
  CHECK(all.points[1].low == 3);
  CHECK(all.points[1].high == 4);
  CHECK(all.points[2].mean() == 50);
}

TEST_CASE("a curve never has more points than it may, and loses no value") {
  curve points(2000);
  for (int i = 1; i <= 1'000'000; ++i)
    points.add(i, 1, i);
  const auto all = points.since(0).points;
  CHECK(all.size() <= 2000);
  CHECK(all.size() > 900);
  double sum = 0;
  for (const auto& point : all)
    sum += point.sum;
  CHECK(sum == 1'000'000);
  CHECK(all.back().step == 1'000'000);
}

TEST_CASE("a reader gets what it has not seen, in place of what has changed") {
  curve points(4);
  for (int i = 1; i <= 5; ++i)
    points.add(i, i, i);
  auto next = points.since(4);
  CHECK(next.from == 0);  // halved
  CHECK(next.points.size() == 3);
  points.add(6, 6, 6);
  next = points.since(5);
  CHECK(next.from == 2);
  REQUIRE(next.points.size() == 1);
  CHECK(next.points[0].mean() == 5.5);
  CHECK(points.since(6).points.empty());
}

TEST_CASE("values that are not finite are counted, and spoil no mean") {
  curve points(2);
  points.add(1, std::numeric_limits<double>::quiet_NaN(), 1);
  CHECK(std::isnan(points.since(0).points[0].mean()));
  points.add(2, -3, 2);
  points.add(3, std::numeric_limits<double>::infinity(), 3);
  const auto point = points.since(0).points.at(0);
  CHECK(point.mean() == -3);
  CHECK(point.low == -3);
  CHECK(point.high == -3);
  CHECK(point.not_finite == 1);
}
