#include "troupe/monitors/live/rank_load.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

ops_event ops_of(std::int32_t data_rank, std::int32_t rank, std::int64_t busy) {
  ops_event ops;
  ops.source.data_rank = data_rank;
  ops.source.rank = rank;
  ops.ops = {{.begin = 100, .end = 100 + busy}};
  return ops;
}

}  // namespace

TEST_CASE("the load of a rank is the mean of its last ten training steps") {
  const auto load = std::make_shared<rank_load>(2);
  const auto watch = load_monitor(load);
  const auto none = load->shares(4);
  CHECK(none.size() == 4);
  for (const auto& each : none)
    CHECK_FALSE(each);
  step_event step;
  step.begin = 100;
  step.end = 200;
  for (int i = 0; i < 12; ++i) {
    watch.see(ops_of(0, 0, i < 2 ? 99 : 50));
    watch.see(ops_of(1, 1, 25));
    watch.see(step);
  }
  watch.see(ops_of(0, 0, 1));
  step.source.phase = phase::validation;
  watch.see(step);
  const auto shares = load->shares(4);
  CHECK(shares[0] == 0.5);
  CHECK_FALSE(shares[1]);
  CHECK_FALSE(shares[2]);
  CHECK(shares[3] == 0.25);
}
