#pragma once

#include <memory>
#include <vector>

#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/device/accelerator.hpp"

namespace troupe {

/// The microbatches of a step, those of all replicas, in memory of a device
/// that stays where it is: what a recorded step reads. One thread at a time.
class graph_inputs {
 public:
  /// Copies of these, on the stream.
  graph_inputs(const std::vector<microbatch_data>& first,
               device_stream& stream);

  /// Whether another step's have the same names, shapes and dtypes.
  bool fit(const std::vector<microbatch_data>& step) const;
  /// Copies another step's, which fit, behind what the stream was given.
  void copy(const std::vector<microbatch_data>& step, device_stream& stream);
  /// They, as data: microbatch 0 is the first of the first replica.
  std::shared_ptr<const microbatch_source> source() const;

 private:
  std::vector<microbatch_data> held_;
};

}  // namespace troupe
