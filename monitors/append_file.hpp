#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// A file that grows by whole pieces (lines, records), each with the system
/// when `write` returns. If one doesn't fit on the disk, its beginning is
/// taken back, so that a reader never sees a part. Members may be called by
/// any thread. Throws `io`.
class append_file {
 public:
  /// Replaces what was there, or with `keeps` continues it; unless somebody
  /// else is writing it.
  explicit append_file(std::string path, bool keeps = false);

  void write(std::string_view piece);

 private:
  std::string path_;
  owned_descriptor file_;
  std::int64_t size_ = 0;
  std::mutex mutex_;
};

}  // namespace troupe
