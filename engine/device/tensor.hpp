#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe {

/// Values that travel between stages and in and out of modules: several
/// tensors, by position. An undefined tensor means "no value" (no gradient).
using tensor_list = std::vector<at::Tensor>;

/// Several of them: one for each stage that gives or takes one.
using tensor_lists = std::vector<tensor_list>;

/// Parameters, or other tensors, by dotted name; in model order.
using parameter_list = std::vector<std::pair<std::string, at::Tensor>>;

/// Optional inputs of a microbatch that every stage may read, by name (a
/// mask, position ids).
using tensor_arguments = std::map<std::string, at::Tensor>;

/// "float32[4, 128, 256]"; "undefined" without a value.
std::string describe(const at::Tensor& tensor);
/// "(float32[4, 128], int64[4])".
std::string describe(const tensor_list& tensors);

/// Whether each instance (a slice along dimension 0) is one piece of memory,
/// and they follow each other. The order within an instance does not matter.
bool lies_by_instances(const at::Tensor& tensor);

/// Whether a tensor holds neither NaN nor infinity: one pass over its memory,
/// for which a device is waited for.
bool is_finite(const at::Tensor& tensor);
/// The name of the first tensor that is not finite; empty: all are.
std::string first_not_finite(const parameter_list& tensors);

/// The dtype in which values of a dtype are added up: fp32 for those of 16
/// bits.
inline at::ScalarType widened(at::ScalarType type) {
  return at::isReducedFloatingType(type) ? at::kFloat : type;
}

/// A hash of a tensor's bytes: equal values give equal hashes.
std::uint64_t content_hash(const at::Tensor& tensor);

/// Whether autograd differentiates the dtype.
inline bool may_require_gradient(const at::Tensor& tensor) {
  return tensor.is_floating_point() || tensor.is_complex();
}

inline bool requires_gradient(const at::Tensor& leaf) {
  return leaf.defined() && leaf.requires_grad();
}

}  // namespace troupe
