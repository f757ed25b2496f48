#pragma once

#include <cstdint>
#include <string>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/philox.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

class rank_device;

/// The random numbers of a forward, made current by the code that runs it.
struct random_draws {
  std::uint64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t microbatch = 0;  // index in the source
  std::int32_t slice = 0;
  rank_device* device = nullptr;  // null: the CPU
  /// int32 [2] on the device, the microbatch's row of `draw_keys`, which each
  /// launch of a recorded forward reads; undefined: the forward isn't recorded.
  at::Tensor key{};
  std::int32_t layer = 0;
  std::uint32_t drawn = 0;  // in the layer so far

  void enter_layer(std::int32_t number) {
    layer = number;
    drawn = 0;
  }
  /// The stream of the next draw; its key is `key`, if that is defined.
  philox_stream next();
};

/// The keys of the numbers of `count` microbatches of a step: int32 [count, 2].
at::Tensor draw_keys(std::uint64_t seed, std::int64_t step, std::int64_t first,
                     std::int64_t count);

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
