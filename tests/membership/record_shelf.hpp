#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "draws.hpp"
#include "troupe/engine/membership/record_store.hpp"

namespace troupe::simulated {

/// The store of the record that all authorities share.
class record_shelf : public membership::record_store {
 public:
  record_shelf(draws& random, bool has_outages)
    : random_(random), has_outages_(has_outages) {}

  std::optional<membership::job_record> read() override {
    return is_out ? std::nullopt : std::optional(stored_);
  }
  std::optional<std::int64_t> revision() override {
    return is_out ? std::nullopt : std::optional(stored_.revision);
  }
  membership::swap_result swap(const membership::job_record& next) override {
    using membership::swap_result;
    before_swap();
    const auto is_unclear = has_outages_ && random_.chance(6);
    if (is_out || (is_unclear && random_.chance(2)))
      return swap_result::unknown;
    if (next.revision != stored_.revision + 1)
      return swap_result::conflict;
    stored_ = next;
    ++swaps;
    on_stored(next);
    return is_unclear ? swap_result::unknown : swap_result::stored;
  }
  void calm() { has_outages_ = is_out = false; }
  const membership::job_record& stored() const { return stored_; }

  bool is_out = false;
  std::int64_t swaps = 0;
  std::function<void(const membership::job_record&)> on_stored;
  /// What others do while the one that swaps has decided to.
  std::function<void()> before_swap;

 private:
  draws& random_;
  bool has_outages_;
  membership::job_record stored_;
};

}  // namespace troupe::simulated
