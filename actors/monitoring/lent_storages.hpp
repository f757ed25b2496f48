#pragma once

#include <c10/core/StorageImpl.h>

#include <cstdint>
#include <unordered_map>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// The storages that were handed to a monitor, to see what it holds on to.
class lent_storages {
 public:
  void add(const event& what) {
    if (const auto* tensors = std::get_if<tensors_event>(&what))
      for (const auto& record : tensors->tensors)
        if (record.tensor.defined() && record.tensor.has_storage())
          lent_.insert_or_assign(
            record.tensor.storage().unsafeGetStorageImpl(),
            loan{record.tensor.storage().getWeakStorageImpl(),
                 static_cast<std::int64_t>(record.tensor.storage().nbytes())});
  }
  std::int64_t alive_bytes() {
    std::erase_if(lent_,
                  [](const auto& item) { return item.second.what.expired(); });
    std::int64_t bytes = 0;
    for (const auto& [storage, loan] : lent_)
      bytes += loan.bytes;
    return bytes;
  }

 private:
  struct loan {
    c10::weak_intrusive_ptr<c10::StorageImpl> what;
    std::int64_t bytes;
  };
  std::unordered_map<const c10::StorageImpl*, loan> lent_;
};

}  // namespace troupe
