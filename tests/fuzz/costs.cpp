// Costs of ops.
#include "troupe/engine/plan/cost/costs.hpp"
#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read = parse_costs(text);
    const plan_op op{.kind = plan_op_kind::forward, .stage = 3};
    testing::require(read.cost_of(0, op) >= 0 && read.message >= 0
                     && read.message_between(3, 4).total() >= 0);
  });
}
