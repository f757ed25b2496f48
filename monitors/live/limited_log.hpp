#pragma once

#include <mutex>
#include <string>

#include "troupe/base/rate_limit.hpp"

namespace troupe {

/// The log of what clients' monitors cause: 32 texts, and one more in each 10
/// s; the next one that is logged tells how many were not, and so does the end.
/// Texts are cut at 8 KiB, and their further lines indented, so that none looks
/// like one of the log's own. Any thread.
class limited_log {
 public:
  limited_log() = default;
  ~limited_log();
  limited_log(const limited_log&) = delete;
  limited_log& operator=(const limited_log&) = delete;

  void info(const std::string& text);
  void warn(const std::string& text);

 private:
  /// The line that is to be logged; empty: none is.
  std::string line_for(const std::string& text);

  std::mutex mutex_;
  rate_limit limit_{32, std::chrono::seconds(10)};
};

}  // namespace troupe
