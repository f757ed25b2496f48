// Shards on devices: gathers and reductions run on their own streams.
#include <catch2/catch_test_macros.hpp>

#include <mutex>
#include <set>

#include "device_trainings.hpp"
#include "faked_accelerator.hpp"
#include "step_trace.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::vector<small_case> cases{
  {.data_parallel = 2, .sharding = {.mode = shard_mode::all}},
  {.data_parallel = 2, .sharding = {.mode = shard_mode::gradients}},
  {.data_parallel = 2, .sharding = {.mode = shard_mode::all}, .tied = true},
  {.data_parallel = 2,
   .optimizer = muon{},
   .sharding = {.mode = shard_mode::all}},
  {.schedule = "zb_v",
   .stages_per_rank = 2,
   .data_parallel = 2,
   .sharding = {.mode = shard_mode::all, .most_whole = 1}},
  {.schedule = "interleaved_1f1b",
   .stages_per_rank = 2,
   .data_parallel = 4,
   .sharding = {.mode = shard_mode::all, .group = 2}}};

using stream_pair = std::pair<int, int>;

/// Trains with a disturbed device; `leaves_out` as in `device_disturbance`.
void train_without(const small_case& what,
                   const std::shared_ptr<faked_accelerator>& device,
                   std::function<bool(int, int)> leaves_out) {
  train(what,
        std::make_shared<disturbed_accelerator>(
          device, device_disturbance{.leaves_out = std::move(leaves_out)}));
}

}  // namespace

TEST_CASE("sharded replicas train the same bits on a device, without a race") {
  for (const auto& what : cases) {
    INFO(describe(what));
    const auto device = std::make_shared<faked_accelerator>();
    CHECK(different_bits(train(what, device), train(what, nullptr)) == "");
    CHECK(device->races() == std::vector<std::string>{});
  }
}

TEST_CASE("a disturbed device trains the same bits in shards") {
  const auto device = std::make_shared<faked_accelerator>();
  for (const auto& what : cases)
    check_disturbed(what, device, {.every = 2, .delay = 0.001, .blocks = 4});
  CHECK(device->races() == std::vector<std::string>{});
}

TEST_CASE("each event between computing and the collectives of shards counts") {
  const auto& what = cases.front();
  // Reducers make their streams in any order, so a stream is identified by its
  // kind: one of a rank's, or a collective's.
  const auto kind = [&](int stream) {
    const bool of_rank =
      stream < streams_of_rank * what.ranks * what.data_parallel;
    return of_rank ? stream % streams_of_rank : streams_of_rank;
  };
  std::mutex guard;
  std::set<stream_pair> waits;
  train_without(what, std::make_shared<faked_accelerator>(),
                [&](int of, int by) {
                  const std::scoped_lock lock(guard);
                  if (std::max(kind(of), kind(by)) == streams_of_rank)
                    waits.emplace(kind(of), kind(by));
                  return false;
                });
  CHECK(waits.size() >= 2);
  for (const auto& left_out : waits) {
    CAPTURE(left_out.first, left_out.second);
    // Repeated as long as the host has already waited for the same work.
    bool found = false;
    for (int i = 0; i < 100 && !found; ++i) {
      const auto device = std::make_shared<faked_accelerator>();
      train_without(what, device, [&](int of, int by) {
        return stream_pair{kind(of), kind(by)} == left_out;
      });
      found = !device->races().empty();
    }
    CHECK(found);
  }
}
