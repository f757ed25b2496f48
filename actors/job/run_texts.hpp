#pragma once

#include <string>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/actors/step/messages.hpp"
#include "troupe/actors/step/progress_board.hpp"

namespace troupe {

/// "step 3, rank 1, op 1F2 (stage 1, microbatch 2, replica 0): reason"; of no
/// rank or op "step 3: reason", and before the first step only the reason.
std::string to_text(const op_failure& failure);

/// "process 1 (rank 1)".
std::string in_words(std::int32_t process, const job_layout& layout);

/// "process 1 (rank 1) is gone: reason".
std::string to_text(const peer_lost& lost, const job_layout& layout);

/// Each rank's activity: "rank 0 runs 0F1; rank 1 waits at 1F1 for ...".
std::string waits_of(const progress_board& board, const step_context& step);

}  // namespace troupe
