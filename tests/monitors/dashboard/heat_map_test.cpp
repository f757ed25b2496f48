#include "troupe/monitors/dashboard/heat_map.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

tensor_record record_with(tensor_kind kind, double max_abs, double mean) {
  tensor_record record;
  record.kind = kind;
  record.statistics.count = 4;
  record.statistics.nans = 1;
  record.statistics.max_abs = max_abs;
  record.statistics.mean = mean;
  record.statistics.squares = 2;  // around the mean
  return record;
}

tensors_event op_at(std::int32_t data_rank, std::int32_t stage,
                    std::int32_t microbatch) {
  event_source source;
  source.step = 7;
  source.data_rank = data_rank;
  source.stage = stage;
  source.microbatch = microbatch;
  return {source, false, 1, {}};
}

}  // namespace

TEST_CASE("a cell joins the statistics of an op's tensors") {
  heat_map map(2, 3, 2);
  auto op = op_at(1, 1, 2);
  op.tensors = {record_with(tensor_kind::activation, 2, 1),
                record_with(tensor_kind::activation, 5, 3),
                record_with(tensor_kind::activation_gradient, 9, 0),
                record_with(tensor_kind::weight, 99, 0)};
  map.add(op);
  CHECK(map.step == 7);
  CHECK(map.columns == 6);
  REQUIRE(map.activations.size() == 12);
  const auto& cell = map.activations[1 * 6 + 1 * 3 + 2];
  CHECK(cell.seen);
  CHECK(cell.max_abs == 5);
  CHECK(cell.sum == 3 * 1 + 3 * 3);
  CHECK(cell.finite == 6);
  CHECK(cell.not_finite == 2);
  CHECK(map.gradients[11].max_abs == 9);
  CHECK_FALSE(map.activations[0].seen);
  CHECK_FALSE(map.is_cut());
}

TEST_CASE("a heat map is bounded, and says where it is cut") {
  heat_map map(1000, 1000, 8);
  CHECK(map.activations.size() <= 16384);
  CHECK(map.is_cut());
  for (const auto& [stage, microbatch] :
       {std::pair{999, 0}, {0, 999}, {-1, 0}, {0, -1}})
    map.add(op_at(7, stage, microbatch));
}
