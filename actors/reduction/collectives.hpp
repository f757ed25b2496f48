#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/messages.hpp"

namespace troupe {

/// The collectives of the members of a stage's group, its copies in all
/// replicas: within a process, over links, or from device to device. One thread
/// at a time.
class collectives {
 public:
  virtual ~collectives() = default;

  /// Whether some of the members live in other processes.
  virtual bool spans_processes() const = 0;
  /// The stream that a call for these gradients runs on; null: the host.
  virtual device_stream* stream(const reduce_gradients&) { return nullptr; }

  /// Replaces tensors by their sum over all members, element by element, added
  /// by ascending data rank and copy, divided by the number of replicas.
  /// `members`: those of this process, in that order, with the same shapes
  /// everywhere, defined. Returns
  /// whether it is done (on a device: launched); otherwise parts from other
  /// processes do it, and the tensors are the collective's until then.
  virtual bool all_reduce(std::int64_t serial, std::int32_t stage,
                          std::vector<tensor_list>& members) = 0;
  /// A part from another process: returns whether that ends the call. Throws
  /// `mismatch` for a part that belongs elsewhere or comes twice.
  virtual bool on(reduce_part part);
};

/// All members live in this process.
std::unique_ptr<collectives> make_local_collectives(std::int32_t replicas);

}  // namespace troupe
