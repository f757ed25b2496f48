#pragma once

#include "troupe/schedules/schedule.hpp"

/// Makers of the built-in schedules, for the table in builtin.cpp: it checks
/// the shapes before, and names the schedules.
namespace troupe::catalogue {

// one_forward_one_backward.cpp
schedule all_forwards_first(const schedule_shape& shape);
schedule one_f_one_b(const schedule_shape& shape);
schedule eager_1f1b(const schedule_shape& shape);
schedule interleaved_1f1b(const schedule_shape& shape);
schedule depth_first(const schedule_shape& shape);
schedule weight_stash(const schedule_shape& shape);
schedule two_bw(const schedule_shape& shape);
schedule hanayo(const schedule_shape& shape);
schedule forward_only(const schedule_shape& shape);

// zero_bubble.cpp
schedule zb_h1(const schedule_shape& shape);
schedule zb_h2(const schedule_shape& shape);
schedule interleaved_zb(const schedule_shape& shape);
schedule zb_v(const schedule_shape& shape);
schedule v_half(const schedule_shape& shape);
schedule v_min(const schedule_shape& shape);

// dual_pipe.cpp
schedule dualpipe_v(const schedule_shape& shape);
schedule dualpipe(const schedule_shape& shape);

/// One forward, one backward in turns, after a warm-up to which each rank
/// between this one and the last adds `depth` forwards. If it splits backwards,
/// weight gradients lag by as many microbatches for each rank before this one.
schedule after_warm_up(const schedule_shape& shape, std::int32_t depth,
                       bool splits = false);

}  // namespace troupe::catalogue
