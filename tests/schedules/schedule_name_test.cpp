#include "troupe/schedules/schedule_name.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

using namespace troupe;

TEST_CASE("a schedule's name holds nothing that a shell would run") {
  CHECK(schedule_name("found/zb h1-2.csv") == "found/zb h1-2.csv");
  CHECK(schedule_name("$(command).csv") == "__command_.csv");
  CHECK(schedule_name("a`b`;c|d&e\nf\x1b[2Jg\"h'<i>")
        == "a_b__c_d_e_f__2Jg_h__i_");
  CHECK(schedule_name("\xc3\xa4") == "__");
  CHECK(schedule_name(std::string(500, 'a')).size() == 200);
}

TEST_CASE("schedules from files bear plain names") {
  const auto from_cells = from_csv("0F0,0B0\n", "$(command).csv");
  CHECK(from_cells.name == "__command_.csv");
  auto named = from_cells;
  named.name = "`command`";
  CHECK(from_text_form(to_text_form(named), "source").name == "_command_");
}
