#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "troupe/engine/events/observer.hpp"

using namespace troupe;
using enum step_reading;

TEST_CASE("a watched step has a hit where a tensor or a loss is not finite") {
  int events = 0;
  observer eyes({}, {}, [&](const tensors_event&) { ++events; });
  const auto hits = [&](step_reading reading, const at::Tensor& tensor) {
    eyes.begin_step(nullptr, 1, reading);
    eyes.left(at::ones({2}));
    eyes.left(tensor);
    return eyes.has_hit();
  };
  for (const auto bad : {NAN, INFINITY, -INFINITY}) {
    const auto one = at::full({3}, bad);
    CHECK(hits(watched, one));
    CHECK_FALSE(hits(once, one));
    CHECK_FALSE(hits(again, one));
    eyes.begin_step(nullptr, 1, watched);
    eyes.loss("loss", one[0]);
    CHECK(eyes.has_hit());
  }
  CHECK_FALSE(hits(watched, at::full({3}, 3e38)));
  CHECK_FALSE(hits(watched, at::Tensor{}));
  CHECK_FALSE(hits(watched, at::full({3}, INFINITY, at::kComplexFloat)));
  CHECK_FALSE(hits(watched, at::empty({0})));
  CHECK(events == 0);
}
