#pragma once

#include <cstdint>
#include <string>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/philox.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

// Random numbers of a forward are values of the op, not the state of a process:
// a function of the seed, the step, the microbatch, the slice, the layer and
// the number of the draw within the layer. So they are the same under every
// schedule, split, order of execution, number of processes and layout of the
// same microbatches over replicas, in a second forward (recompute), in the
// plain loop, and after a run is resumed. The model is JAX's partitionable
// threefry.

/// Sets each element of x to 0 with probability p and multiplies the others by
/// 1 / (1 - p), in a forward of training; else returns x. Call it in the
/// `forward` of a stage_module, the same number of times whatever the values
/// are. The mask is the same on CPUs and on GPUs, for any strides. Throws
/// `invalid_argument` unless 0 <= p <= 1, and in a step that is recorded as a
/// graph.
at::Tensor dropout(const at::Tensor& x, double p);

/// Makes a CPU generator of the op's own for other draws in a forward of
/// training, another one at each call (`at::rand(sizes, op_generator())`).
/// Throws `invalid_argument` elsewhere.
at::Generator op_generator();

/// Makes a CPU generator that depends on these numbers alone. A data source
/// with it gives the same microbatches whichever thread makes them, and when.
at::Generator generator_at(std::uint64_t seed, std::int64_t index);

/// The random numbers of a forward, made current by the code that runs it.
struct random_draws {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;  // index in the source
  std::int32_t slice = 0;
  rank_device* device = nullptr;  // null: the CPU
  bool is_recorded = false;       // as a graph, which would repeat its numbers
  std::int32_t layer = 0;
  std::uint32_t drawn = 0;  // in the layer so far

  void enter_layer(std::int32_t number) {
    layer = number;
    drawn = 0;
  }
  /// The stream of the next draw.
  philox_stream next();
};

/// device_kernels::fill_mask on a CPU.
void fill_mask(const at::Tensor& mask, const philox_stream& stream,
               std::uint32_t threshold);

/// The draws that are current on this thread; null: it runs no forward of
/// training.
random_draws*& current_draws();
using draws_scope = current_scope<random_draws*, current_draws>;

/// Notes the operators that draw from LibTorch's own generator in this thread
/// while it lives.
class draw_watch {
 public:
  draw_watch();
  ~draw_watch();
  draw_watch(const draw_watch&) = delete;
  draw_watch& operator=(const draw_watch&) = delete;

  /// The name of the first one; empty: there was none.
  const std::string& first() const { return first_; }

 private:
  std::string first_;
  std::uint64_t handle_;
};

}  // namespace troupe
