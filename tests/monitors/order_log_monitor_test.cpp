#include "troupe/monitors/metrics.hpp"

#include <catch2/catch_test_macros.hpp>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "fixture_g.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/plan/check/order_log.hpp"

using namespace troupe;
using namespace troupe::testing;

TEST_CASE("a run's log has the orders of its steps") {
  const temporary_folder folder;
  const auto path = folder / "log";
  auto options = options_g(2, 4);
  trainer run(model_g(), options);
  run.attach(order_log_monitor(path));
  std::vector<step_report> steps;
  for (int i = 0; i < 3; ++i)
    steps.push_back(run.step(source_g(4)));
  run.finish_monitors();
  const order_log log(content(path), path);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto orders =
      log.orders_of(run.plan(), 1, static_cast<std::int64_t>(i) + 1);
    for (const auto& rank : steps[i].ops) {
      const auto& order = orders.at(std::size_t(rank.source.rank));
      REQUIRE(order.size() == rank.ops.size());
      for (std::size_t k = 0; k < order.size(); ++k)
        CHECK(order[k] == rank.ops[k].op);
    }
  }
  CHECK_THROWS_AS(order_log_monitor(folder / "no/such"), error);
}
