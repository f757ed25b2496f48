// Logs of the orders in which ops started, compared with a plan.
#include "parse.hpp"
#include "troupe/engine/plan/check/order_log.hpp"
#include "troupe/engine/plan/compile/compile.hpp"
#include "troupe/schedules/builtin.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const auto of =
    compile(make_schedule("1f1b", {.ranks = 2, .microbatches = 2}));
  return testing::parse(data, size, [](std::string_view text) {
    const auto orders = order_log(text, "a log").orders_of(of, 1, 1);
    for (std::int32_t r = 0; r < of.ranks(); ++r)
      testing::require(orders.at(std::size_t(r)).size() == of.lane(r).size());
  });
}
