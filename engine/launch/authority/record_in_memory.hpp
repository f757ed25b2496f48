#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "troupe/engine/membership/record_store.hpp"

namespace troupe {

/// A record that lasts as long as this process.
class record_in_memory : public membership::record_store {
 public:
  explicit record_in_memory(membership::job_record first)
    : record_(std::move(first)) {}

  std::optional<membership::job_record> read() override { return record_; }
  std::optional<std::int64_t> revision() override { return record_.revision; }
  membership::swap_result swap(const membership::job_record& next) override {
    if (next.revision != record_.revision + 1)
      return membership::swap_result::conflict;
    record_ = next;
    return membership::swap_result::stored;
  }

 private:
  membership::job_record record_;
};

}  // namespace troupe
