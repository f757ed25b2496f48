#include "troupe/engine/launch/authority/record_in_etcd.hpp"

#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/authority/record_text.hpp"

namespace troupe {

namespace {

constexpr auto record_key = "record";

/// None if etcd can't be asked.
template <class Work>
auto unless_away(const std::function<void(const std::string&)>& trouble,
                 const Work& work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const error& reason) {
    if (reason.code() != error_code::transport)
      throw;
    trouble(reason.what());
    return std::nullopt;
  }
}

}  // namespace

record_in_etcd::record_in_etcd(etcd_options where, membership::job_record first,
                               std::function<void(const std::string&)> trouble)
  : etcd_(std::move(where)),
    first_(std::move(first)),
    trouble_(std::move(trouble)) {}

std::optional<membership::job_record> record_in_etcd::read() {
  return unless_away(trouble_, [&] {
    const auto found = etcd_.get(record_key);
    if (!found)
      return first_;
    auto record = read_record(found->value);
    if (record.revision != found->version)
      fail(error_code::malformed_text,
           "the key troupe/{}/{} of etcd was changed by another program",
           etcd_.options().job, record_key);
    return record;
  });
}

std::optional<std::int64_t> record_in_etcd::revision() {
  return unless_away(trouble_, [&] { return etcd_.version(record_key); });
}

membership::swap_result record_in_etcd::swap(
  const membership::job_record& next) {
  const auto is_stored = unless_away(trouble_, [&] {
    return etcd_.put(record_key, record_text(next), next.revision - 1);
  });
  return !is_stored   ? membership::swap_result::unknown
         : *is_stored ? membership::swap_result::stored
                      : membership::swap_result::conflict;
}

}  // namespace troupe
