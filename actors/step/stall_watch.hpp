#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/messages.hpp"
#include "troupe/actors/rank/progress_board.hpp"

namespace troupe {

/// Notices that no op has ended between two looks at a running step.
class stall_watch {
 public:
  stall_watch(std::shared_ptr<const progress_board> board, double seconds)
    : board_(std::move(board)), seconds_(seconds) {}

  void begin() { seen_.clear(); }
  /// Logs who waits for whom if nothing has moved since the last look, and on
  /// which calls links between devices are stuck.
  void look(const step_context& step, device_links* links = nullptr);

 private:
  std::shared_ptr<const progress_board> board_;
  double seconds_;
  std::vector<progress_board::entry> seen_;
};

/// "step 3, rank 1, op 1F2 (stage 1, microbatch 2, replica 0): reason".
std::string to_text(const op_failure& failure);

/// "process 1 (rank 1)".
std::string in_words(std::int32_t process, const job_layout& layout);

/// "process 1 (rank 1) is gone: reason".
std::string to_text(const peer_lost& lost, const job_layout& layout);

/// Each rank's activity: "rank 0 runs 0F1; rank 1 waits at 1F1 for ...".
std::string waits_of(const progress_board& board, const step_context& step);

/// How long a process that is gone waits for the reason to come from
/// elsewhere.
inline constexpr std::chrono::milliseconds patience_with_lost_peers{300};
/// How long a link that failed waits for what its other side, which may well
/// live, has to tell of that.
inline constexpr std::chrono::milliseconds patience_with_ended_links{2000};

}  // namespace troupe
