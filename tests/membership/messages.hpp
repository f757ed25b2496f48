#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "troupe/engine/membership/messages.hpp"

namespace troupe::simulated {

using membership::member_id;

// What members of an epoch send each other, besides votes and decisions.
struct step_data {
  std::int64_t epoch = 0, step = 0;
  std::uint64_t sum = 0;  // over the ranks of the sender
};
struct state_request {
  std::int64_t epoch = 0;
  std::int32_t rank = 0;
};
struct state_reply {
  std::int64_t epoch = 0;
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::uint64_t hash = 0;
};
struct snapshot_copy {
  std::int64_t epoch = 0;
  std::int32_t rank = 0;
  std::int64_t step = 0;
  std::uint64_t hash = 0;
};
struct snapshot_stored {
  std::int64_t epoch = 0;
  std::int32_t rank = 0;
  std::int64_t step = 0;
};

/// A peer's socket is closed, or its host no more reachable.
struct link_closed {
  member_id peer = 0;
};

enum class wake_kind : std::uint8_t {
  tick,
  computed,
  rested,
  load_again,
  checkpoint_read,
  authority_start,
  process_start,  // in the place of the process `number`
  end_known,      // of the process `number`, to its launcher
  fault,
  heal,         // of the partition `number`
  link_healed,  // between `epoch` and `number`
  store_back,
  calm,
};
/// What a process or the world does by itself after a while.
struct wake {
  wake_kind kind = wake_kind::tick;
  std::int64_t epoch = 0, number = 0;
};

using payload =
  std::variant<wake, step_data, membership::step_vote,
               membership::step_decision, state_request, state_reply,
               snapshot_copy, snapshot_stored, link_closed,
               membership::member_report, membership::authority_order>;

/// For the history.
std::string describe(const payload&);
std::string describe(const membership::epoch&);

}  // namespace troupe::simulated
