#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

#include "troupe/engine/plan/draw/timeline.hpp"

namespace troupe {

/// The number of each stage on its rank, from 0, by copy.
class chunk_table {
 public:
  explicit chunk_table(const timeline& timeline);

  std::size_t of(const timeline_span& span) const {
    return chunk_.at({span.copy, span.stage});
  }
  std::size_t chunks() const { return chunks_; }
  bool has_copies() const { return has_copies_; }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> chunk_;
  std::size_t chunks_ = 1;
  bool has_copies_ = false;
};

}  // namespace troupe
