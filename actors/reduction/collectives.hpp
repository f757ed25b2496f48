#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/actors/step/messages.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

/// The collectives of the members of a group (collective_work): within a
/// process, over links, or from device to device. One thread at a time.
class collectives {
 public:
  virtual ~collectives() = default;

  /// The stream that a call for these tensors runs on; null: the host.
  virtual device_stream* stream(const collective_request&) { return nullptr; }

  /// Does what `collective_work` describes. `members`: the requests of those in
  /// this process, by data rank, copy, then stage, all of one kind; gradients
  /// that are reduced have the same shapes everywhere and are defined. Means
  /// are added by ascending data rank and copy, as `gradient_mean` describes.
  /// `call`: its number in the run, the same in all processes. Returns whether
  /// it is done (on a device: launched); otherwise parts from other processes
  /// do it, and `members` must live until then.
  virtual bool run(std::int64_t call,
                   std::vector<collective_request>& members) = 0;
  /// A part from another process: returns whether that ends the running call.
  /// Throws `mismatch` for a part that belongs elsewhere, comes twice, or is of
  /// another collective than this process makes.
  virtual bool on(collective_part part);
};

using absent_list = std::vector<std::uint32_t>;

/// The parameters that both lack.
absent_list common(const absent_list& some, const absent_list& others);

/// The parts of a member's gradients that go to a shard, in one dimension.
tensor_list pieces_of(const reduce_scatter& work, std::int32_t shard);

/// All members live in this process.
std::unique_ptr<collectives> make_local_collectives(gradient_mean mean);

}  // namespace troupe
