#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "troupe/engine/plan/cost/simulate.hpp"
#include "troupe/engine/plan/plan.hpp"

namespace troupe {

/// One executed op, measured or simulated.
struct timeline_span {
  std::int32_t rank = 0;
  plan_op_kind kind = plan_op_kind::forward;
  std::int32_t stage = 0;
  std::int32_t microbatch = none;
  double start = 0;
  double end = 0;
  std::int64_t step = none;    // if measured
  double host_start = 0;       // when the host launched it
  std::int16_t slice = none;   // if microbatches have slices
  std::int8_t copy = 0;        // of its stage
  bool overlaps_next = false;  // a pair with the rank's next compute op
};

/// A transfer beside a rank's ops, on another stream: how an op of the plan
/// moved data. Only traces show it.
struct timeline_transfer {
  std::int32_t rank = 0;
  stream_kind stream = stream_kind::compute;
  const char* type = "";  // "send", "receive", "reduce" or "load"
  std::string name{};     // the op's, as in the CSV
  std::int32_t stage = 0;
  std::int32_t microbatch = none;
  double start = 0;
  double end = 0;
  std::int64_t step = none;
  double host_start = 0;
};

/// Why a rank was idle before an op.
enum class wait_kind : std::uint8_t {
  bubble,     // its input was not computed yet
  transport,  // its input was sent, but had not arrived
  credit,     // its input could not be sent
  host,       // all inputs were there, but the op had not begun
};
const char* to_text(wait_kind kind);  // "waits for a core"

struct timeline_wait {
  std::int32_t rank = 0;
  wait_kind kind = wait_kind::bubble;
  double start = 0;
  double end = 0;
};

/// A notable moment of a rank, such as a value that is not finite.
struct timeline_mark {
  std::int32_t rank = 0;
  double at = 0;
  std::string text{};
};

/// A message, from the end of one span to the start of another.
struct timeline_flow {
  std::size_t from = 0;  // into spans
  std::size_t to = 0;
  bool backward = false;
};

/// What every rank did when: the input of all pictures. Times are in
/// milliseconds if `unit` is "ms", else in units of a cost model.
struct timeline {
  std::string title{};
  std::string unit{};
  std::int32_t ranks = 1;  // rows: those of all replicas
  /// Replica d's rank r is row d x (ranks / replicas) + r.
  std::int32_t replicas = 1;
  std::vector<timeline_span> spans{};
  std::vector<timeline_flow> flows{};
  std::vector<timeline_transfer> transfers{};  // measured ones
  std::vector<timeline_wait> waits{};          // measured ones
  std::vector<timeline_mark> marks{};

  double duration() const;
  std::int32_t ranks_per_replica() const {
    return ranks / std::max(replicas, 1);
  }
};

/// The ops of a simulated step that take time, and its messages.
timeline to_timeline(const plan& plan, const simulation& times);

/// A span's name, as in the CSV: 0F3, 2REDUCE_GRAD; 2F3.1, 2F3@1 with slices
/// and copies.
std::string to_text(const timeline_span& span);

}  // namespace troupe
