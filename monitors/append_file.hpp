#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// What a resumed run keeps of a file that it continues: the lines up to its
/// step, as later ones will be written again, and none that is incomplete.
struct continued_lines {
  std::int64_t step = 0;  // from which the run goes on; 0: it begins anew
  /// The step of a line without its end; none: it belongs to the one before.
  std::function<std::optional<std::int64_t>(std::string_view line)> step_of{};
};

/// Lines that hold their step behind the first `key`, such as `"step":`; or
/// with an empty key at their beginning.
continued_lines lines_with_step(std::int64_t resumed, std::string key);

/// A file that grows by whole pieces (lines, records), each with the system
/// when `write` returns. If one doesn't fit on the disk, its beginning is
/// taken back, so that a reader never sees a part. Members may be called by
/// any thread. Throws `io`.
class append_file {
 public:
  /// Replaces what was there, but for the lines that are continued; unless
  /// somebody else is writing it.
  explicit append_file(std::string path, const continued_lines& kept = {});

  void write(std::string_view piece);
  /// Whether nothing was kept or written yet.
  bool is_empty() const { return size_ == 0; }

 private:
  std::string path_;
  owned_descriptor file_;
  std::int64_t size_ = 0;
  std::mutex mutex_;
};

/// Lets this process write a file that a process has open which has no part in
/// the job any more, but may still live: replaces the file by a copy, if it is
/// locked. Throws `io`.
void take_over_file(const std::string& path);

}  // namespace troupe
