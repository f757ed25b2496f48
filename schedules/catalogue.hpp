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

/// At least `ranks` microbatches a group, if there are that many: enough to
/// keep all ranks busy until the group's first one returns.
std::vector<std::int32_t> groups_to_fill(const schedule_shape& shape);

}  // namespace troupe::catalogue
