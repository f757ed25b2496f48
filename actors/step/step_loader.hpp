#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "troupe/engine/data/microbatch_source.hpp"

namespace troupe {

/// Makes all microbatches of a step at once, for a step that is launched
/// whole; those of the next one while the device works. One thread.
class step_loader {
 public:
  /// A microbatch, counted from the step's first, took so many seconds.
  using slow_report = std::function<void(std::int64_t, double)>;

  /// Loads `microbatches` for all replicas; reports one that takes more than
  /// `slow_seconds`.
  step_loader(std::int64_t microbatches, double slow_seconds,
              slow_report report)
    : microbatches_(microbatches),
      slow_seconds_(slow_seconds),
      report_(std::move(report)) {}

  /// The step's that begins with the source's microbatch `first`. Empty if
  /// one can't be made: the loader actors will say why.
  std::vector<microbatch_data> take(const source_pointer& source,
                                    std::int64_t first);
  /// Makes them for the next `take`.
  void make_ahead(const source_pointer& source, std::int64_t first);

 private:
  std::vector<microbatch_data> load(const microbatch_source& source,
                                    std::int64_t first) const;

  std::int64_t microbatches_;
  double slow_seconds_;
  slow_report report_;
  source_pointer ahead_of_;
  std::int64_t ahead_first_ = 0;
  std::vector<microbatch_data> ahead_;
};

}  // namespace troupe
