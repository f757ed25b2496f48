#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/actors/held_stages.hpp"
#include "troupe/actors/job/job_members.hpp"
#include "troupe/actors/job/state_copies.hpp"
#include "troupe/actors/pipeline/pipeline.hpp"
#include "troupe/actors/recording/graph_steps.hpp"
#include "troupe/actors/run_plans.hpp"
#include "troupe/actors/sequence_generator.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/actors/trainer_setup.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/device/core_group.hpp"
#include "troupe/engine/stage/update/loss_scale.hpp"

namespace troupe {

/// A process of a job, as of a meeting.
struct joined_process {
  std::int64_t pid = 0;
  std::int64_t since = 0;  // by the clock of this process, in ns
  core_group cores{};
};

/// The parts of a trainer, and how far its run is.
struct trainer::impl {
  impl(const model& layers, trainer_options options);

  step_settings next_settings() const;
  step_report run(const step_settings& settings, const source_pointer& source);
  void note(const step_report& report);
  /// Takes up what the leading process has announced, before the next training
  /// step.
  void take_up_changes();
  void rehost(std::vector<std::int32_t> hosting);
  /// The options of the actors of the hosting now, with new links.
  pipeline_options relinked();
  run_progress progress() const;
  void set_progress(const run_progress& now);

  // A job that heals; trainer_healing.cpp.

  /// Calls of all processes of a job that have just met: compares what they
  /// train, and goes on from states that are left in memory, if any are.
  void meet();
  /// The same; false: another process was lost meanwhile, and the job heals.
  bool meets();
  /// Copies the states before a step, if it is time, into the memory of this
  /// process and of others.
  void copy_states();
  /// Whether the job was to heal, and that can help.
  bool is_healable(const error& reason);
  std::optional<failed_op> failure_of_op(const error& reason) const;
  void rejoin(std::optional<failed_op> why);
  bool has_lost() const;
  std::map<stage_place, std::int32_t> hosts() const;
  std::vector<stage_place> copies_from_others() const;
  void announce_pending();
  void keep_states();
  void send_copies();
  void await_copies(std::int64_t of_step);
  std::optional<recovery> find_recovery();
  void take_hosting(std::vector<std::int32_t> hosting);
  void change_layout(std::vector<std::int32_t> hosting);
  std::vector<held_rank> held_states() const;
  [[noreturn]] void meet_again();
  void note_members(std::vector<joined_process> processes);
  core_group own_compute() const;
  /// Whether the processes are to meet again.
  bool regroups() const { return ending_epoch >= epoch; }
  void tell_of_regroup(std::int64_t running);
  void note_epoch(std::int64_t met_epoch, double seconds);
  void publish_epoch();
  /// To the monitors of the process that leads. Elsewhere nobody sees an event,
  /// and it must not count as seen if that process leads later.
  void publish(event what);
  void remember(const step_event& outcome);
  job_members members() const;

  /// Throws `invalid_argument` for a layout that links between devices can't
  /// have; any thread.
  void require_movable(const job_layout& next) const;

  const model layers;
  trainer_setup setup;
  run_plans plans;
  held_stages stages;
  std::shared_ptr<device_links> links;
  std::shared_ptr<state_copies> kept = std::make_shared<state_copies>();
  std::unique_ptr<graph_steps> graphs;  // null: all steps run op by op
  pipeline actors;                      // ends before what they run
  sequence_generator generator;
  std::vector<std::string> names;  // of all modules and parameters of the job
  std::int64_t parameter_count = 0;
  troupe::loss_scale scale;
  std::int64_t step = 0;
  std::int64_t position = 0;
  bool saves = false;     // all processes are asked to save
  run_requests requests;  // of the last meeting, until a step tells of them
  /// Guards the hosting, which the thread that runs steps changes, the next
  /// one, and the members.
  mutable std::mutex hosting_mutex;
  std::vector<std::int32_t> next_hosting;    // empty: no other one
  std::vector<joined_process> joined;        // those of the last meeting
  std::int64_t rehosted = 0;                 // so often
  std::optional<std::int64_t> last_copied;   // step, since the processes met
  std::vector<stage_place> expected_copies;  // of that step, from others
  bool has_copied = false;          // all processes held copies of one step
  bool recovered = false;           // the run goes on from copies
  std::atomic<std::int64_t> epoch;  // of the last meeting
  std::int64_t moved_bytes = 0;     // of states, in that meeting
  std::optional<double> meeting_seconds;  // until monitors know of it
  std::int64_t evaluated = -1;            // after this step, last
  std::deque<step_event> outcomes;        // the newest
  const std::int64_t began = now_ns();
  std::atomic<std::int64_t> copied = -1;  // the newest step of which all are
  std::atomic<std::int64_t> ending_epoch = -1;     // as `regroup` was told
  std::atomic<std::int64_t> abandoned_epoch = -1;  // at once
};

}  // namespace troupe
