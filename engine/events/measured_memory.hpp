#pragma once

#include <c10/core/StorageImpl.h>

#include <unordered_map>
#include <utility>

#include "troupe/engine/events/statistics.hpp"

namespace troupe {

/// How closely a tensor is measured; each level includes the ones before it.
enum class depth : std::uint8_t { none, extremes, statistics, histogram };

/// Remembers what was measured in an op, or for weights in a step: by storage,
/// offset in it, and version. A weak handle keeps a remembered storage's
/// address from being reused, without keeping its bytes.
class measured_memory {
 public:
  struct measured {
    depth measured_depth = depth::none;
    tensor_statistics statistics = {};
    std::size_t row = 0;  // on a device, used instead of `statistics`
  };

  /// Calls `measure` if the tensor was not measured so closely before.
  template <class Measure>
  const measured& get(const at::Tensor& tensor, depth wanted,
                      const Measure& measure) {
    const auto* storage = tensor.storage().unsafeGetStorageImpl();
    const auto [first, last] = entries_.equal_range(storage);
    for (auto place = first; place != last; ++place)
      if (place->second.is(tensor)
          && place->second.found.measured_depth >= wanted)
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
