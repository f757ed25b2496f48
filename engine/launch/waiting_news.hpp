#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "troupe/engine/launch/job.hpp"

namespace troupe {

inline constexpr auto waiting_for_a_part =
  "waiting for a part in the job: it begins when all its processes have come; "
  "in one that runs, this process takes the place of one that is lost";

/// Tells what a process waits for: after a time, and then less and less often.
class waiting_news {
 public:
  /// `news` may be null; `first`: after which time.
  explicit waiting_news(
    std::function<void(const std::string&)> news,
    std::chrono::milliseconds first = std::chrono::seconds(3))
    : news_(std::move(news)), first_(first), next_(first) {}
  explicit waiting_news(const job_options& of)
    : waiting_news(of.news, of.news_every) {}

  /// To be called again and again; asks for the text if it is due.
  void tell(const std::function<std::string()>& text) {
    if (!news_ || std::chrono::steady_clock::now() - began_ < next_)
      return;
    news_(text());
    next_ *= 2;
  }
  /// Likewise; with an empty text the waiting is over, and another may begin.
  void tell(const std::string& text) {
    if (!text.empty())
      return tell([&] { return text; });
    next_ = first_;
    began_ = std::chrono::steady_clock::now();
  }

 private:
  const std::function<void(const std::string&)> news_;
  const std::chrono::milliseconds first_;
  std::chrono::milliseconds next_;
  std::chrono::steady_clock::time_point began_ =
    std::chrono::steady_clock::now();
};

}  // namespace troupe
