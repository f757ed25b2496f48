// Every schedule of the catalogue trains the plain loop's parameters, bit for
// bit.
#include <catch2/catch_test_macros.hpp>

#include <map>

#include "catalogue_cases.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

void check(const small_case& what) {
  INFO(describe(what));
  CHECK(compare_with_plain(what, 2) == "");
}

}  // namespace

TEST_CASE("a sample of each schedule trains the plain loop's bits") {
  const auto all = catalogue_cases();
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
  for (const auto& each : catalogue_cases())
    check(each);
}
