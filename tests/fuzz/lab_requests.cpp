// Requests of the lab's page.
#include <nlohmann/json.hpp>

#include "parse.hpp"
#include "troupe/lab/job.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto job = lab::parse_job(lab::parse_request(text));
    const auto& shape = job.shape;
    testing::require(shape.ranks >= 1 && shape.ranks <= lab::most_ranks);
    constexpr std::int64_t few = 64;  // cells, as time is limited
    if (std::int64_t{shape.ranks} * shape.stages_per_rank * shape.microbatches
          * shape.slices
        <= few)
      testing::require(lab::make_lanes(job).ranks() >= 1);
  });
}
