#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/launch/job_membership.hpp"

namespace troupe::cli {

/// Declares --heal, --snapshot-every, --rebalance, --join and --authority.
void add_healing_flags(CLI::App& app, healing_flags& options);

/// Throws `invalid_argument` for --heal without an authority, or with flags
/// that a job that heals can't have.
void require_healing(const train_options& options);

/// Whether the job is to heal: by a flag, or as the environment names an
/// authority that no `troupe launch` has.
bool is_healing(const healing_flags& options);
/// Whether this process has a part in a job that heals, of which it may be the
/// only process.
bool has_authority(const healing_flags& options);

/// The layout with which the job begins, where spares host no ranks.
job_layout layout_at_start(const trainer_options& run);

/// Joins the job that heals, meets the others for the first time, and lets the
/// trainer's options meet them again.
std::shared_ptr<job_membership> join_healing_job(job_options joining,
                                                 const train_options& options,
                                                 train_setup& setup);

/// Why the job is to end in its current epoch; empty: it goes on. `membership`
/// may be null.
std::string end_of_job(const std::shared_ptr<job_membership>& membership);

/// To be called in an epoch after the first if no process holds a state. The
/// leading process warns. Throws `states_lost` if the job is to end, as it has
/// nothing to save.
void go_on_without_copies(const std::shared_ptr<job_membership>& membership,
                          bool leads);

/// What there is to resume from, in words; the folder may be empty.
std::string newest_checkpoint(const std::string& folder);

/// For a process that leads the job now: the one that led it before may still
/// have its files open, as it is stopped, or can't be reached.
void take_over_outputs(const train_options& options);

/// Sets what this process logs: the leading one all of the level, the others
/// warnings and errors, with their number.
void log_as_process(std::int32_t process, spdlog::level::level_enum level);

/// Lets a run meet the job's other processes again when they change, while it
/// lives.
class regrouped_run {
 public:
  /// `membership` may be null. A SIGTERM to this process alone lets the others
  /// take its ranks. `left_out`: as that of membership_events.
  regrouped_run(trainer& run, std::shared_ptr<job_membership> membership,
                signal_watch& signals, std::function<void()> left_out);
  ~regrouped_run();
  regrouped_run(const regrouped_run&) = delete;
  regrouped_run& operator=(const regrouped_run&) = delete;

 private:
  std::shared_ptr<job_membership> membership_;
  signal_watch& signals_;
  std::optional<job_membership::events_scope> events_;
};

}  // namespace troupe::cli
