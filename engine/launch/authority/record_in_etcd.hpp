#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/engine/launch/etcd/etcd_client.hpp"
#include "troupe/engine/membership/record_store.hpp"

namespace troupe {

/// A record in etcd, at the job's key `record`: its revision is the key's
/// version, so that it is changed by compare-and-swap. One thread.
class record_in_etcd : public membership::record_store {
 public:
  /// `first` is read as long as there is no such key. `trouble` receives why
  /// etcd can't be asked now. Throws as etcd_client does.
  record_in_etcd(etcd_options where, membership::job_record first,
                 std::function<void(const std::string&)> trouble);

  /// Throws `malformed_text` for a value that is no record.
  std::optional<membership::job_record> read() override;
  std::optional<std::int64_t> revision() override;
  membership::swap_result swap(const membership::job_record& next) override;

 private:
  etcd_client etcd_;
  membership::job_record first_;
  std::function<void(const std::string&)> trouble_;
};

}  // namespace troupe
