#pragma once

#include <ATen/core/ivalue.h>

#include <cstdint>
#include <unordered_map>

#include "troupe/base/current_scope.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace torch::autograd {
struct AutogradContext;
}

namespace troupe {

/// The casts of a stage's parameters to the dtype of its autocast, each made
/// once and read by all forwards and backwards until the parameter changes or
/// `clear` is called: stages clear them when a step begins, and when sharded
/// parameters are released. A parameter has one cast at most, of the version
/// that was read last, so that they take the dtype's 2 bytes an element beside
/// the parameter's 4. The values are those of a cast at each use. Used by one
/// thread at a time, but the engine's threads may differ from the forward's.
class weight_casts final : public torch::CustomClassHolder {
 public:
  using pointer = c10::intrusive_ptr<weight_casts>;

  /// The parameter itself if it has that dtype.
  at::Tensor of(const at::Tensor& parameter, at::ScalarType type);
  void clear() { casts_.clear(); }
  /// Bytes of the casts that are held.
  std::int64_t bytes() const;

 private:
  struct cast {
    /// Of the values that were cast; keeps no memory, but the address.
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    std::uint32_t version;
    at::Tensor value;
  };

  std::unordered_map<const at::TensorImpl*, cast> casts_;
};

/// The casts that are current on this thread; null: each use makes its own.
weight_casts::pointer& current_casts();
using weight_casts_scope = current_scope<weight_casts::pointer, current_casts>;

/// A parameter in that dtype, for a forward.
at::Tensor cast_of(const at::Tensor& parameter, at::ScalarType type);
/// Lets the backward of a function find the casts that are current in its
/// forward, which calls this.
void note_casts(torch::autograd::AutogradContext& context);
/// A parameter in that dtype, for that backward.
at::Tensor cast_of(const torch::autograd::AutogradContext& context,
                   const at::Tensor& parameter, at::ScalarType type);

}  // namespace troupe
