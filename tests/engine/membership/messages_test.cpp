#include "troupe/engine/membership/messages.hpp"

#include <catch2/catch_test_macros.hpp>

#include "troupe/engine/membership/record_store.hpp"
#include "troupe/engine/transport/wire.hpp"

using namespace troupe;
using namespace troupe::membership;

TEST_CASE("messages of membership and the record travel whole") {
  const member_report report{
    3, 9,
    2, member_stage::frozen,
    2, {{1, 4, copy_kind::snapshot}},
    3, true,
    1, trouble{trouble_kind::op_failed, 2, 1, 5, 1, "out of memory"}};
  const auto bytes = to_wire(report);
  const auto read = from_wire<member_report>(bytes);
  CHECK(to_wire(read) == bytes);
  CHECK(read.copies == report.copies);
  CHECK(read.problem->what == "out of memory");

  const job_record record{.revision = 4,
                          .epoch = {.number = 2, .members = {1, 3}},
                          .failures = {{true, 3, 5, 70}},
                          .stop_reason = "NaN"};
  CHECK(from_wire<job_record>(to_wire(record)).epoch.members
        == record.epoch.members);
  const authority_order order{
    .member = 1, .kind = order_kind::prepare, .epoch = record.epoch};
  CHECK(from_wire<authority_order>(to_wire(order)).kind == order.kind);
}
