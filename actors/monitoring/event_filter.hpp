#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "troupe/actors/monitoring/monitor_thread.hpp"

namespace troupe {

/// Takes out of shared tensors_events what one monitor did not ask for, others'
/// handles among it: what one hoards must not count as another's.
class event_filter {
 public:
  explicit event_filter(subscription wants) : wants_(std::move(wants)) {}

  /// The event itself, or a part of it; null: nothing is left.
  event_pointer pass(const event_pointer& what) {
    const auto* tensors = std::get_if<tensors_event>(what.get());
    if (!tensors)
      return what;
    tensors_event part{tensors->source,
                       tensors->backward,
                       tensors->samples,
                       {},
                       tensors->for_exempt};
    bool stripped = false;
    for (const auto& record : tensors->tensors) {
      if (!wanted(record))
        continue;
      part.tensors.push_back(record);
      if (record.tensor.defined() && !has(wants_.needs, tensor_needs::handle)) {
        part.tensors.back().tensor = at::Tensor{};
        stripped = true;
      }
    }
    if (!stripped && part.tensors.size() == tensors->tensors.size())
      return what;
    return part.tensors.empty()
             ? nullptr
             : std::make_shared<const event>(std::move(part));
  }

 private:
  bool wanted(const tensor_record& record) {
    if (!has(wants_.tensors, record.kind))
      return false;
    const auto [entry, added] = known_.try_emplace(record.owner->name);
    if (added)
      entry->second = wants_.wants(record.kind, record.owner->name);
    return entry->second;
  }

  subscription wants_;
  /// By name: what comes from other processes has owners of its own.
  std::unordered_map<std::string, bool> known_;
};

}  // namespace troupe
