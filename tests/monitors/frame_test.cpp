#include "troupe/monitors/tensors/frame.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

/// A record as from another process: with its own owner.
tensor_record record(const char* name, tensor_kind kind, std::int32_t call) {
  tensor_record result;
  result.kind = kind;
  result.owner =
    std::make_shared<const tensor_owner>(tensor_owner{name, "mlp"});
  result.call = call;
  return result;
}

}  // namespace

TEST_CASE("a call of a module is one frame, wherever its records come from") {
  const tensors_event op{{},
                         false,
                         1,
                         {record("a", tensor_kind::input, 0),
                          record("a", tensor_kind::activation, 0),
                          record("a", tensor_kind::activation, 1),
                          record("b", tensor_kind::activation, 1)}};
  const auto frames = frames_of(op);
  REQUIRE(frames.size() == 3);
  CHECK(frames[0].records.size() == 2);
}
