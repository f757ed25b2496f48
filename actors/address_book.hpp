#pragma once

#include <c10/util/Exception.h>

#include <functional>
#include <vector>

#include "troupe/actors/caf.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe {

/// Who is who in a run. Filled before the first message; read-only then.
struct address_book {
  std::int32_t stages = 0;
  std::int32_t ranks = 0;
  std::vector<caf::actor> stage_actors;   // by data rank, then stage
  std::vector<caf::actor> device_actors;  // by data rank, then rank
  std::vector<caf::actor> loaders;        // by data rank
  std::vector<caf::actor> reducers;       // by stage
  caf::actor coordinator;
  caf::actor hub;

  const caf::actor& stage(std::int32_t data_rank, std::int32_t stage) const {
    return stage_actors[static_cast<std::size_t>(data_rank * stages + stage)];
  }
  const caf::actor& device(std::int32_t data_rank, std::int32_t rank) const {
    return device_actors[static_cast<std::size_t>(data_rank * ranks + rank)];
  }
};
using address_book_pointer = std::shared_ptr<address_book>;

/// Called at the start of every handler; tests inject random delays here.
using handler_hook = std::function<void()>;

/// Calls `work`; what it throws becomes an `op_failure` to the coordinator
/// that names the op, and the actor goes on listening (others may still send
/// to it) until it is told to stop.
template <class Self, class Work>
void guarded(Self* self, const address_book& book, const handler_hook& hook,
             const std::function<op_failure()>& where, Work&& work) {
  try {
    if (hook)
      hook();
    work();
  } catch (const c10::Error& reason) {
    auto failure = where();
    failure.reason = reason.what_without_backtrace();
    self->send(book.coordinator, std::move(failure));
  } catch (const std::exception& reason) {
    auto failure = where();
    failure.reason = reason.what();
    self->send(book.coordinator, std::move(failure));
  }
}

}  // namespace troupe
