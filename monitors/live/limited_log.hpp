#pragma once

#include <mutex>
#include <string>

#include "troupe/base/rate_limit.hpp"

namespace troupe {

/// Where what clients' monitors cause is logged: 32 texts, and one more in each
/// 10 s; the next one that is logged tells how many were not, and so does the
/// end. Texts are cut at 8 KiB, and their further lines indented, so that none
/// looks like one of the log's own. Any thread.
class limited_log {
 public:
  limited_log() = default;
  ~limited_log();
  limited_log(const limited_log&) = delete;
  limited_log& operator=(const limited_log&) = delete;

  void info(const std::string& text);
  void warn(const std::string& text);

 private:
  /// The text as it is to be logged; empty: it is not.
  std::string passed(const std::string& text);

  std::mutex mutex_;
  rate_limit limit_{32, std::chrono::seconds(10)};
};

}  // namespace troupe
