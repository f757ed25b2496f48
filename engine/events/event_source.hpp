#pragma once

#include <cstdint>
#include <string>

#include "troupe/base/fields.hpp"

namespace troupe {

enum class phase : std::uint8_t { training, validation, inference };
template <>
inline constexpr auto largest_value<phase> = phase::inference;

/// Where in the job something happened. -1 for parts that don't apply.
struct event_source {
  std::int64_t step = 0;
  troupe::phase phase = phase::training;
  std::int32_t data_rank = 0;
  std::int32_t rank = -1;  // pipeline rank
  std::int32_t stage = -1;
  std::int32_t microbatch = -1;
  std::int16_t slice = 0;
  /// Which monitors were attached when the step began, as a count of changes;
  /// later ones don't see the rest of the step. -1: for all.
  std::int64_t epoch = -1;
};

template <class Archive>
void fields(Archive& archive, event_source& v) {
  TROUPE_EACH_FIELD(v, step, phase, data_rank, rank, stage, microbatch, slice)
  archive.within_job("epoch", v.epoch);
}

/// "step 3 rank 1 stage 2 microbatch 0".
std::string source_text(const event_source& source);

}  // namespace troupe
