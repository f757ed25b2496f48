// Every schedule of the catalogue trains the plain loop's parameters, bit for
// bit.
#include <catch2/catch_test_macros.hpp>

#include <map>

#include "../schedules/shapes.hpp"
#include "small_model.hpp"
#include "troupe/schedules/validate.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// The schedules at P in 2 to 4 and m in P, 2P and 2P + 1, where that is legal,
/// with one and two replicas, in both orders.
std::vector<small_case> catalogue() {
  std::vector<small_case> all;
  for (const auto& row : builtin_schedules())
    for (const std::int32_t ranks : {2, 3, 4})
      for (const auto microbatches : {ranks, 2 * ranks, 2 * ranks + 1}) {
        auto shape = small_shape(row);
        shape.ranks = ranks;
        shape.microbatches = microbatches;
        if (!takes(row, shape) || !is_training(make_schedule(row.name, shape)))
          continue;
        for (const auto replicas : {1, 2})
          for (const auto order :
               {lane_order::strict, lane_order::ready_first}) {
            auto what = catalogue_case(row, shape);
            what.data_parallel = replicas;
            what.order = order;
            all.push_back(what);
          }
      }
  return all;
}

void check(const small_case& what) {
  INFO(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

}  // namespace

TEST_CASE("a sample of each schedule trains the plain loop's bits") {
  const auto all = catalogue();
  std::map<std::string, std::vector<small_case>> by_name;
  for (const auto& each : all)
    by_name[each.schedule].push_back(each);
  CHECK(by_name.size() > 17);
  std::size_t turn = 0;
  for (const auto& [name, cases] : by_name)
    for (int i = 0; i < 3; ++i)
      check(cases[(turn += 7) % cases.size()]);
}

TEST_CASE("each schedule trains the plain loop's bits", "[.full]") {
  for (const auto& each : catalogue())
    check(each);
}
