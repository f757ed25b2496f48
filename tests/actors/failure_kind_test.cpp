#include "troupe/actors/step/failure_kind.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

TEST_CASE("failures that a second try may heal are told from permanent ones") {
  for (const auto code : {error_code::device, error_code::io})
    CHECK(kind_of(code) == failure_kind::op);
  CHECK(kind_of(error_code::transport) == failure_kind::link);
  for (const auto code :
       {error_code::invalid_argument, error_code::invalid_schedule,
        error_code::deadlock, error_code::invalid_data,
        error_code::invalid_checkpoint, error_code::mismatch,
        error_code::op_failed, error_code::interrupted, error_code::internal})
    CHECK(kind_of(code) == failure_kind::permanent);
}
