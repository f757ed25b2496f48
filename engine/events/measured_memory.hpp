#pragma once

#include <c10/core/StorageImpl.h>

#include <unordered_map>
#include <utility>

#include "troupe/engine/events/tensor_record.hpp"

namespace troupe {

/// How closely a tensor is measured; each level includes the ones before it,
/// except that extremes tell nothing of a sample.
enum class depth : std::uint8_t {
  none,
  sample,
  extremes,
  statistics,
  histogram
};

constexpr bool includes(depth found, depth wanted) {
  return found == wanted
         || (found > wanted
             && !(found == depth::extremes && wanted == depth::sample));
}

/// The depth that a monitor needs of a whole tensor; its needs of a sample are
/// apart.
constexpr depth depth_of(tensor_needs needs) {
  if (has(needs, tensor_needs::histogram))
    return depth::histogram;
  if (has(needs, tensor_needs::statistics))
    return depth::statistics;
  return has(needs, tensor_needs::extremes) ? depth::extremes : depth::none;
}

/// Remembers what was measured in an op, or for weights in a step: by storage,
/// offset in it, and version. A weak handle keeps a remembered storage's
/// address from being reused, without keeping its bytes.
class measured_memory {
 public:
  struct measured {
    depth measured_depth = depth::none;
    tensor_statistics statistics = {};
    row_estimates sample = {};  // of depth::sample, instead of `statistics`
    std::size_t row = 0;        // on a device, instead of either
  };

  /// Calls `measure` if the tensor was not measured so closely before.
  template <class Measure>
  const measured& get(const at::Tensor& tensor, depth wanted,
                      const Measure& measure) {
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto [first, last] = entries_.equal_range(storage);
    for (auto place = first; place != last; ++place)
      if (place->second.is(tensor)
          && includes(place->second.found.measured_depth, wanted))
        return place->second.found;
    return entries_.emplace(storage, entry(tensor, measure()))->second.found;
  }
  void clear() { entries_.clear(); }

 private:
  static std::int64_t rows(const at::Tensor& tensor) {
    return tensor.dim() == 0 ? 1 : tensor.size(0);
  }

  struct entry {
    c10::weak_intrusive_ptr<c10::StorageImpl> holder;
    std::int64_t offset, count, instances;
    std::uint32_t version;
    bool contiguous;
    at::ScalarType dtype;
    measured found;

    entry(const at::Tensor& tensor, measured what)
      : holder(tensor.storage().getWeakStorageImpl()),
        offset(tensor.storage_offset()),
        count(tensor.numel()),
        instances(rows(tensor)),
        version(tensor._version()),
        contiguous(tensor.is_contiguous()),
        dtype(tensor.scalar_type()),
        found(std::move(what)) {}

    bool is(const at::Tensor& tensor) const {
      return contiguous && tensor.is_contiguous()
             && offset == tensor.storage_offset() && count == tensor.numel()
             && instances == rows(tensor) && version == tensor._version()
             && dtype == tensor.scalar_type();
    }
  };
  std::unordered_multimap<const c10::StorageImpl*, entry> entries_;
};

}  // namespace troupe
