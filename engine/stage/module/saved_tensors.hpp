#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <unordered_set>
#include <vector>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The tensors that LibTorch's graph of one forward, run within a
/// `saved_tensors_scope`, has saved for its backward (by PyTorch's saved tensor
/// hooks), so that they can wait in the host's memory. Tensors that share
/// memory are copied once, and share the copy. Lives at least as long as the
/// graph; tensors that the graph has freed are not copied. Used by one thread
/// at a time, but the engine's threads may differ from the forward's.
class saved_tensors {
 public:
  /// `stays`: parameters and buffers, whose memory is never copied.
  explicit saved_tensors(const tensor_list& stays);
  ~saved_tensors();
  saved_tensors(const saved_tensors&) = delete;
  saved_tensors& operator=(const saved_tensors&) = delete;

  /// Returns a handle of the same values, without a graph, that is copied with
  /// the others; memory that stays and parameters are only shared.
  at::Tensor keep(const at::Tensor& tensor);
  /// Frees the memory of a handle, whose shape stays, once the others are
  /// copied to the host: nothing reads it from then on.
  void drop_later(const at::Tensor& handle);

  /// Copies to the host's memory and frees the device's; the device's
  /// `offloads` stream, null: the CPU, must have waited for the values.
  void to_host(rank_device* device);
  /// Copies back, by the device's `reloads` stream, to memory of the compute
  /// stream, within whose scope this is called.
  void to_device(rank_device* device);
  /// The bytes that are in the host's memory now.
  std::int64_t bytes_on_host() const;

 private:
  struct copied_memory;

  std::unordered_set<const void*> stays_;  // storages
  std::vector<
    c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>>
    handles_;
  tensor_list dropped_;
  std::vector<copied_memory> on_host_;
};

/// The object to which graphs save on this thread; null: none.
std::shared_ptr<saved_tensors>& current_saved();
using saved_tensors_scope =
  current_scope<std::shared_ptr<saved_tensors>, current_saved>;

/// The parameter that an autograd function has saved. A graph that saves to
/// `saved_tensors` unpacks another handle of it, with a `.grad` of its own;
/// functions that add to `.grad` themselves therefore need this one.
at::Tensor parameter_of(const at::Tensor& saved);

}  // namespace troupe
