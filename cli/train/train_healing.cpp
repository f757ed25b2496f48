#include "troupe/cli/train/train_healing.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe/engine/launch/etcd/etcd_client.hpp"
#include "troupe/engine/launch/local_launcher.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/monitors/append_file.hpp"
#include "troupe/monitors/live/json_fields.hpp"

namespace troupe::cli {

namespace {

std::string variable(const char* name) {
  const auto* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// The address of the authority, by the flag or the launcher.
std::string authority_of(const healing_flags& options) {
  const auto address = options.authority.empty() ? variable(authority_variable)
                                                 : options.authority;
  return address.empty() || names_etcd(address) ? address
                                                : as_endpoint(address);
}

/// The number of launched processes that wait to replace others.
std::int32_t spares() {
  return parse_number<std::int32_t>(variable(spares_variable)).value_or(0);
}

/// What joins a job is no job of its own.
void require_alone(const train_options& options) {
  if (options.plain || !read_environment().is_alone())
    fail(error_code::invalid_argument,
         "--join: {}; start one `troupe train` for each process that joins",
         options.plain ? "--plain runs in one process"
                       : "a launcher started several processes here");
}

/// Asks the job where its authority is.
std::string authority_of_job(const train_options& options) {
  const auto& joins = options.healing.joins;
  live_options job;
  job.endpoint = joins == "auto" ? "" : joins;
  job.token_file = options.access.endpoint_token_file;
  const auto answer = job.connect().request("GET", "/ranks", nullptr);
  if (!answer.contains("authority"))
    fail(error_code::invalid_argument,
         "--join {}: that job does not heal; start it by `troupe launch` with "
         "train --heal",
         joins);
  return field<std::string>(answer, "authority");
}

std::vector<std::int32_t> first_hosting(const job_options& joining,
                                        const trainer_options& run) {
  const auto ranks = run.schedule.placement.ranks;
  const auto processes = joining.place.processes;
  return make_layout(joining.place.process, processes - spares(),
                     run.data_parallel, ranks, run.hosting)
    .hosting;
}

/// A job that was stopped may have checkpoints.
job_meeting meet_or_report(job_membership& membership,
                           const std::vector<held_rank>& held,
                           const std::optional<failed_op>& why,
                           const std::string& folder) {
  try {
    return membership.meet(held, why);
  } catch (const error& reason) {
    if (reason.code() != error_code::op_failed)
      throw;
    fail(reason.code(), "{}; {}", reason.what(), newest_checkpoint(folder));
  }
}

}  // namespace

void add_healing_flags(CLI::App& app, healing_flags& options) {
  app.add_flag(
    "--heal", options.heals,
    "go on when a process is lost: its ranks move to the others, and to "
    "the process that `troupe launch` starts in its place");
  add_value(app, "--snapshot-every K", options.snapshot_every,
            "steps between two copies of the ranks' states in memory, for "
            "--heal: at most so many are repeated after a loss",
            whole_number(1));
  add_choice(app, "--rebalance HOW", options.rebalances,
             {{"off", false}, {"auto", true}},
             "auto: every 50 steps look by measured costs for the processes "
             "that are best to host each rank, for --heal; ranks move if that "
             "shortens a step by 5 % and pays within 100 steps, at most once "
             "in 200 steps. Results do not change");
  add_value(app, "--join ENDPOINT", options.joins,
            "take ranks of a job that heals and runs on this machine: its "
            "endpoint, as logged at its start, or auto, your only job; all "
            "other flags are to be those of the job");
  add_value(app, "--authority ADDRESS", options.authority,
            "where `troupe authority` is, which decides for a job that heals "
            "on several machines: HOST:PORT, or etcd://HOST:2379/JOB; implies "
            "--heal; a process without RANK joins the job")
    ->default_str(description("`troupe launch`"));
}

void require_healing(const train_options& options) {
  if (!options.healing.joins.empty())
    return require_alone(options);
  if (!is_healing(options.healing) && spares() > 0)
    fail(error_code::invalid_argument,
         "--spares of troupe launch are for jobs that heal; give --heal, too");
  if (!is_healing(options.healing))
    return;
  if (options.plain)
    fail(error_code::invalid_argument,
         "--heal is for jobs of several processes, and --plain runs in one; "
         "omit it");
  const auto place = read_environment();
  if (!place.is_alone() && authority_of(options.healing).empty())
    fail(error_code::invalid_argument,
         "--heal: {} does not say who decides when a process is lost; start "
         "the job by `troupe launch --processes {} -- train ...`, or run "
         "`troupe authority` and give --authority",
         place.launcher, place.processes);
  if (place.is_alone() && authority_of(options.healing).empty())
    spdlog::warn("--heal has no effect: this process is alone");
}

std::string end_of_job(const std::shared_ptr<job_membership>& membership) {
  const auto why = membership ? membership->ends() : std::string{};
  return why.empty() ? why : "the job was stopped: " + why;
}

void go_on_without_copies(const std::shared_ptr<job_membership>& membership,
                          bool leads) {
  constexpr auto text = "no process that is left holds a copy of some state";
  if (!end_of_job(membership).empty())
    throw states_lost(text);
  if (leads)
    spdlog::warn("{}: the run goes on from its last checkpoint, or begins anew",
                 text);
}

std::string newest_checkpoint(const std::string& folder) {
  if (folder.empty())
    return "nothing is saved, as --checkpoints is not given";
  const auto steps = checkpoint_folder(folder).steps();
  return steps.empty()
           ? fmt::format("{} has no checkpoint", folder)
           : fmt::format("the newest checkpoint in {} is that of step {}",
                         folder, std::ranges::max(steps));
}

void take_over_outputs(const train_options& options) {
  for (const auto& [flag, path] : written_files(options))
    take_over_file(path);
  if (!options.checkpoints.folder.empty())
    take_over_folder(options.checkpoints.folder);
}

void log_as_process(std::int32_t process, spdlog::level::level_enum level) {
  const bool leads = process == 0;
  spdlog::set_level(leads ? level : std::max(level, spdlog::level::warn));
  spdlog::set_pattern(
    leads ? "troupe: %^%l%$: %v"
          : fmt::format("troupe: %^%l%$: process {}: %v", process));
}

bool is_healing(const healing_flags& options) {
  const bool is_elsewhere =
    !variable(authority_variable).empty() && variable(spares_variable).empty();
  return options.heals || !options.joins.empty() || !options.authority.empty()
         || is_elsewhere;
}

job_layout layout_at_start(const trainer_options& run) {
  const auto processes = read_environment().processes;
  const auto ranks = run.schedule.placement.ranks;
  auto hosts =
    make_layout(0, processes - spares(), run.data_parallel, ranks, run.hosting);
  return make_layout(0, processes, run.data_parallel, ranks,
                     std::move(hosts.hosting));
}

bool has_authority(const healing_flags& options) {
  return !options.joins.empty()
         || (is_healing(options) && !authority_of(options).empty());
}

std::shared_ptr<job_membership> join_healing_job(job_options joining,
                                                 const train_options& options,
                                                 train_setup& setup) {
  auto& run = setup.trainer;
  const bool joins = !options.healing.joins.empty();
  std::vector<std::int32_t> first;
  const bool is_numbered = !joining.place.launcher.empty();
  if (joins || !is_numbered)
    joining.place.process = -1;
  else
    first = first_hosting(joining, run);
  run.healing.authority =
    joins ? authority_of_job(options) : authority_of(options.healing);
  const auto membership = std::make_shared<job_membership>(
    membership_options{.authority = run.healing.authority,
                       .joining = std::move(joining),
                       .pipeline_ranks = run.schedule.placement.ranks,
                       .replicas = run.data_parallel,
                       .is_sharded = run.sharding.mode != shard_mode::replicate,
                       .hosting = std::move(first)});
  const auto meet = [membership, level = options.output.log_level,
                     folder = options.checkpoints.folder](
                      const std::vector<held_rank>& held,
                      const std::optional<failed_op>& why) {
    auto met = meet_or_report(*membership, held, why, folder);
    if (!met.job) {
      const bool goes_on = membership->job_goes_on();
      membership->finish();  // its last report is on its way
      throw process_end(
        goes_on ? "this process has left the job, which goes on without it"
                : "the job is done without this process",
        0);
    }
    log_as_process(met.job->place().process, level);
    return met;
  };
  auto met = meet({}, {});
  run.job = std::move(met.job);
  run.hosting = std::move(met.hosting);
  setup.epoch = run.healing.epoch = met.epoch;
  run.healing.rejoin = meet;
  run.healing.heals_ops = membership->heals_ops();
  run.healing.request_hosting =
    [membership](std::vector<std::int32_t> hosting) {
      membership->request_hosting(std::move(hosting));
    };
  run.healing.copy_every = options.healing.snapshot_every;
  return membership;
}

regrouped_run::regrouped_run(trainer& run,
                             std::shared_ptr<job_membership> membership,
                             signal_watch& signals,
                             std::function<void()> left_out)
  : membership_(std::move(membership)), signals_(signals) {
  if (!membership_)
    return;
  events_.emplace(membership_->on_events(
    {.change = [&run](std::int64_t ends,
                      bool at_once) { run.regroup(ends, at_once); },
     .stays = [&signals] { signals.end_drained(); },
     .left_out = std::move(left_out)}));
  const bool is_launched = !variable(spares_variable).empty();
  const auto drain = [this](const signal_request&) {
    membership_->leave();
    return std::string(
      "SIGTERM: this process leaves the job as soon as others have its ranks; "
      "a "
      "second signal, a second later, ends it at once");
  };
  signals_.on_drain(drain, is_launched ? ::getppid() : 0);
}

regrouped_run::~regrouped_run() {
  if (membership_)
    signals_.on_drain({});
}

}  // namespace troupe::cli
