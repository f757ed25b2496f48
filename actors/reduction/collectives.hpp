#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

/// The collectives of the members of a group (collective_kind): within a
/// process, over links, or from device to device. One thread at a time.
class collectives {
 public:
  virtual ~collectives() = default;

  /// Whether some of the members live in other processes.
  virtual bool spans_processes() const = 0;
  /// The stream that a call for these tensors runs on; null: the host.
  virtual device_stream* stream(const collective_request&) { return nullptr; }

  /// Does what `collective_work` describes. `members`: the requests of those in
  /// this process, by data rank, copy, then stage, all of one kind; gradients
  /// that are reduced have the
  /// same shapes everywhere and are defined, and where the group spans
  /// processes one more tensor than there are parameters, which a
  /// reduce-scatter gives to all. Means are added by ascending data rank and
  /// copy, as `gradient_mean` describes. `call`: its number in the
  /// run, the same in all processes. Returns whether it is done (on a device:
  /// launched); otherwise parts from other processes do it, and `members` must
  /// live until then.
  virtual bool run(std::int64_t call,
                   std::vector<collective_request>& members) = 0;
  /// A part from another process: returns whether that ends the running call.
  /// Throws `mismatch` for a part that belongs elsewhere, comes twice, or is of
  /// another collective than this process makes.
  virtual bool on(collective_part part);
};

/// All members live in this process.
std::unique_ptr<collectives> make_local_collectives(gradient_mean mean);

}  // namespace troupe
