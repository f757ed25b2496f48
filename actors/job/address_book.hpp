#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "troupe/actors/job/device_links.hpp"
#include "troupe/actors/job/remote_links.hpp"
#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/monitoring/event_hub.hpp"
#include "troupe/actors/system/caf.hpp"
#include "troupe/actors/system/exit_watch.hpp"
#include "troupe/actors/system/failure_cause.hpp"
#include "troupe/actors/system/handles.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace troupe {

/// The actors of a run. Filled before the first message; read-only then.
struct address_book {
  placement places;
  std::vector<stage_handle> stage_actors;  // by data rank, then instance
  /// The actors of the ranks here: of the first stage of each.
  std::vector<stage_handle> rank_actors;
  std::vector<loader_handle> loaders;    // by data rank
  std::vector<reducer_handle> reducers;  // by stage
  /// By data rank, then copy; empty: no parameters are tied.
  std::vector<reducer_handle> tied_reducers;
  coordinator_handle coordinator;
  follower_handle follower;  // the same; null in the leading process
  event_hub_handle hub;
  /// Links to the other processes of the job; null if there are none. Actors
  /// that live there are null here.
  std::shared_ptr<remote_links> links;
  /// Links between devices of different processes; null if there are none.
  std::shared_ptr<device_links> transfers;
  std::shared_ptr<state_copies> kept;  // null: the job does not heal
  bool heals_ops = false;              // it may, of an op's failure
  std::shared_ptr<failure_cause> cause = std::make_shared<failure_cause>();

  std::int32_t data_ranks() const {
    return static_cast<std::int32_t>(loaders.size());
  }
  const stage_handle& stage(std::int32_t data_rank,
                            stage_instance which) const {
    return stage_actors[stage_index(data_rank, which)];
  }
  /// The reducer of a member's collective.
  const reducer_handle& reducer(collective_kind kind, std::int32_t data_rank,
                                stage_instance which) const {
    const auto group = kind == collective_kind::tied_sum
                         ? data_rank * places.copies() + which.copy
                         : which.stage;
    return (kind == collective_kind::tied_sum ? tied_reducers : reducers)
      .at(static_cast<std::size_t>(group));
  }
  /// The process where an instance of a stage lives.
  std::int32_t process_of(std::int32_t data_rank, stage_instance which) const {
    return links ? links->layout().process_of(data_rank, places.rank_of(which))
                 : 0;
  }
  /// Lets the ranks that live here begin a step.
  template <class Self>
  void begin(Self* self, const step_pointer& step) const {
    if (links)
      links->begin(step);
    for (const auto& loader : loaders)
      if (loader)
        self->send(loader, begin_step{step});
    tell_ranks(self, begin_step{step});
  }
  template <class Self, class Message>
  void tell_ranks(Self* self, const Message& message) const {
    for (const auto& actor : rank_actors)
      self->send(actor, message);
  }
  /// Sends an event to the monitors, which live in the leading process. Any
  /// thread.
  void publish(event what) const {
    if (links && !links->leads())
      links->tell(to_frame(std::move(what)));
    else
      caf::anon_send(
        hub, publish_event{std::make_shared<const event>(std::move(what))});
  }
  /// Ends the waits of devices for each other, after the run has failed.
  void end_transfers() const {
    if (transfers)
      transfers->abort();
  }
  std::size_t stage_index(std::int32_t data_rank, stage_instance which) const {
    return static_cast<std::size_t>(data_rank * places.stages()
                                    * places.copies())
           + places.index_of(which);
  }
};
using address_book_pointer = std::shared_ptr<address_book>;

/// A function that every handler calls first; tests inject random delays here.
using handler_hook = std::function<void()>;

/// Runs the handlers of an actor, or of all actors of a rank. The first
/// exception becomes an `op_failure` to the coordinator that names the op;
/// later messages are ignored, as an op that failed halfway must not run again.
struct handler_guard {
  handler_hook hook;
  bool failed = false;

  /// `where` makes the failure but for its reason.
  template <class Where, class Work>
  void run(caf::event_based_actor* self, const address_book& book,
           const Where& where, Work&& work) {
    if (failed)
      return;
    const auto tell = [&](const std::string& reason, failure_kind kind) {
      failed = true;
      book.cause->keep(reason);
      auto failure = where();
      failure.reason = reason;
      failure.kind = kind;
      failure.process = book.links ? book.links->layout().process : 0;
      failure.for_good = kind != failure_kind::link;
      self->send(book.coordinator, std::move(failure));
    };
    try {
      exit_watch::cover();
      if (hook)
        hook();
      work();
    } catch (const error& reason) {
      tell(reason.what(), kind_of(reason.code()));
    } catch (...) {
      tell(thrown_text(), failure_kind::op);
    }
  }
};

}  // namespace troupe
