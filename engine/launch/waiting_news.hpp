#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "troupe/engine/launch/job.hpp"

namespace troupe {

inline constexpr auto waiting_for_a_part =
  "waiting for a part in the job: it begins when all its processes have come; "
  "in one that runs, this process takes the place of one that is lost";

/// Tells what a process waits for: after a time, and then less and less often.
class waiting_news {
 public:
  /// `news` and `news_every` say to whom, and when first.
  explicit waiting_news(const job_options& of)
    : news_(of.news), next_(of.news_every) {}

  /// To be called again and again; asks for the text if it is due.
  void tell(const std::function<std::string()>& text) {
    if (!news_ || std::chrono::steady_clock::now() - began_ < next_)
      return;
    news_(text());
    next_ *= 2;
  }

 private:
  const std::function<void(const std::string&)> news_;
  std::chrono::milliseconds next_;
  const std::chrono::steady_clock::time_point began_ =
    std::chrono::steady_clock::now();
};

}  // namespace troupe
