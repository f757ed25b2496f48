#pragma once

#include <atomic>
#include <memory>

#include "troupe/actors/execution_options.hpp"
#include "troupe/actors/monitoring/event_board.hpp"
#include "troupe/actors/rank/progress_board.hpp"
#include "troupe/actors/step/coordinator_core.hpp"
#include "troupe/actors/step/load_board.hpp"
#include "troupe/actors/system/address_book.hpp"

namespace troupe {

struct supervision {
  std::shared_ptr<progress_board> progress;
  std::shared_ptr<event_board> events;
  std::shared_ptr<load_board> loads;
  time_limits limits;
  /// The leading process has a plan that the others don't know yet.
  std::shared_ptr<std::atomic<bool>> new_plan;
};

/// Begins and ends steps, supervises all others, and answers each `run_step`
/// with one `step_outcome`. After a failure or an interrupt every further
/// step has that outcome.
caf::behavior coordinator_actor(caf::event_based_actor* self,
                                const coordinator_setup& setup,
                                const supervision& watch,
                                const address_book_pointer& book,
                                const handler_hook& hook);

}  // namespace troupe
