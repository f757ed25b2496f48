#include "troupe/engine/events/shard_joiner.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;

namespace {

const auto whole = at::arange(12.0).view({3, 4});

/// The event of shard `shard` of two with values [begin, begin + count).
tensors_event part(std::int32_t shard, std::int64_t begin, std::int64_t count,
                   std::int64_t step = 1, std::int32_t first_replica = 0) {
  tensors_event result;
  result.source.step = step;
  result.source.data_rank = first_replica + shard;
  result.source.stage = 0;
  result.shard = shard;
  result.shards = 2;
  if (count == 0)
    return result;
  tensor_record record;
  record.kind = tensor_kind::gradient;
  record.owner =
    std::make_shared<tensor_owner>(tensor_owner{"w", {}, whole.sizes().vec()});
  record.dimensions = 2;
  record.tensor = whole.view(-1).narrow(0, begin, count);
  record.statistics = measure(record.tensor);
  result.tensors.push_back(std::move(record));
  return result;
}

}  // namespace

TEST_CASE("parts of shards become whole tensors, in whatever order they come") {
  shard_joiner joiner;
  CHECK_FALSE(joiner.add(part(1, 5, 7)));
  const auto joined = joiner.add(part(0, 0, 5));
  REQUIRE(joined);
  CHECK(joined->source.data_rank == 0);
  CHECK(joined->shards == 1);
  REQUIRE(joined->tensors.size() == 1);
  const auto& record = joined->tensors[0];
  CHECK(at::equal(record.tensor, whole));
  const auto expected = measure(whole);
  CHECK(record.statistics.count == 12);
  CHECK(record.statistics.max_abs == expected.max_abs);
  CHECK(record.statistics.mean == Catch::Approx(expected.mean));
  CHECK(record.statistics.variance() == Catch::Approx(expected.variance()));
}

TEST_CASE("a shard without values counts, and so do groups of their own") {
  shard_joiner joiner;
  CHECK_FALSE(joiner.add(part(0, 0, 12)));
  CHECK_FALSE(joiner.add(part(0, 0, 12, 1, 2)));  // another group
  CHECK(joiner.add(part(1, 0, 0))->tensors.size() == 1);
  CHECK(joiner.add(part(1, 0, 0, 1, 2))->source.data_rank == 2);
  CHECK_FALSE(joiner.add(part(0, 0, 0, 2)));
  CHECK(joiner.add(part(1, 0, 0, 2))->tensors.empty());
}

TEST_CASE("a handle whose parts did not all come is left out") {
  shard_joiner joiner;
  joiner.add(part(0, 0, 5));
  const auto joined = joiner.add(part(1, 5, 6));  // one value is missing
  REQUIRE(joined);
  CHECK_FALSE(joined->tensors[0].tensor.defined());
  CHECK(joined->tensors[0].statistics.count == 11);
}

TEST_CASE("parts of a step that never ended are forgotten") {
  shard_joiner joiner;
  joiner.add(part(0, 0, 5, 1));
  joiner.add(part(0, 0, 5, 3));
  CHECK_FALSE(joiner.add(part(1, 5, 7, 1)));
  CHECK(joiner.add(part(1, 5, 7, 3)));
}
