#include "troupe/engine/launch/authority/record_in_file.hpp"

#include <filesystem>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/engine/launch/authority/record_text.hpp"

namespace troupe {

record_in_file::record_in_file(std::string path, membership::job_record first,
                               std::function<void(const std::string&)> trouble)
  : path_(std::move(path)),
    first_(std::move(first)),
    trouble_(std::move(trouble)) {}

std::optional<membership::job_record> record_in_file::read() {
  try {
    return std::filesystem::exists(path_) ? read_record(read_file(path_))
                                          : first_;
  } catch (const error& reason) {
    if (reason.code() == error_code::malformed_text)
      fail(reason.code(), "{}: {}; it is no record of an authority", path_,
           reason.what());
    trouble_(reason.what());
  } catch (const std::filesystem::filesystem_error& reason) {
    trouble_(reason.what());
  }
  return std::nullopt;
}

std::optional<std::int64_t> record_in_file::revision() {
  try {
    const auto record = read();
    return record ? std::optional(record->revision) : std::nullopt;
  } catch (const error& reason) {  // it was a record when the job began
    trouble_(reason.what());
    return std::nullopt;
  }
}

membership::swap_result record_in_file::swap(
  const membership::job_record& next) {
  const auto stored = revision();
  if (!stored)
    return membership::swap_result::unknown;
  if (*stored != next.revision - 1)
    return membership::swap_result::conflict;
  try {
    write_file_atomically(path_, record_text(next));
    return membership::swap_result::stored;
  } catch (const error& reason) {
    trouble_(reason.what());
    return membership::swap_result::unknown;
  }
}

}  // namespace troupe
