#pragma once

#include <cstddef>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

// Changes of a lane that keep it legal: each op after those of its own
// microbatch that it needs, and the ops of a stage that add to gradients, its
// forwards and its I in ascending order. Lanes may still wait for each other
// (`compile`).

/// Moves an op to another place as far as its neighbours let it; false if it
/// stays.
bool move_op(lane& ops, std::size_t from, std::size_t to);

/// Makes a B an I and a W that follows it; false if the op is no B.
bool split_backward(lane& ops, std::size_t at);
/// Makes an I a B, without the W; false if the op is no I, or another W of the
/// stage stands between the two.
bool join_backward(lane& ops, std::size_t at);
/// Splits all B.
void split_backwards(schedule& lanes);
/// Whether any backward is I and W.
bool has_split_backward(const schedule& lanes);

/// Ends all overlapped pairs: their ops run one after the other.
void end_pairs(schedule& lanes);

}  // namespace troupe
