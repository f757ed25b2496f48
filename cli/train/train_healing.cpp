#include "troupe/cli/train/train_healing.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "troupe/actors/job/job_layout.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/engine/launch/local_launcher.hpp"

namespace troupe::cli {

namespace {

std::string variable(const char* name) {
  const auto* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Of those that the launcher started, how many wait to replace others.
std::int32_t spares() {
  return parse_number<std::int32_t>(variable(spares_variable)).value_or(0);
}

std::vector<std::int32_t> first_hosting(const job_options& joining,
                                        const trainer_options& run) {
  const auto ranks = run.schedule.placement.ranks;
  const auto processes = joining.place.processes;
  return make_layout(joining.place.process, processes - spares(),
                     run.data_parallel, ranks, run.hosting)
    .hosting;
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
}

void require_healing(const train_options& options) {
  if (!options.healing.heals && spares() > 0)
    fail(error_code::invalid_argument,
         "--spares of troupe launch are for jobs that heal; give --heal, too");
  if (!options.healing.heals)
    return;
  if (options.plain)
    fail(error_code::invalid_argument,
         "--heal is for jobs of several processes, and --plain runs in one; "
         "omit it");
  const auto place = read_environment();
  if (!place.is_alone() && variable(authority_variable).empty())
    fail(error_code::invalid_argument,
         "--heal: {} does not say who decides when a process is lost; start "
         "the job by `troupe launch --processes {} -- train ...`",
         place.launcher, place.processes);
  if (place.is_alone())
    spdlog::warn("--heal has no effect: this process is alone");
}

void log_as_process(std::int32_t process, spdlog::level::level_enum level) {
  const bool leads = process == 0;
  spdlog::set_level(leads ? level : std::max(level, spdlog::level::warn));
  spdlog::set_pattern(
    leads ? "troupe: %^%l%$: %v"
          : fmt::format("troupe: %^%l%$: process {}: %v", process));
}

std::shared_ptr<job_membership> join_healing_job(job_options joining,
                                                 const train_options& options,
                                                 train_setup& setup) {
  auto& run = setup.trainer;
  auto first = first_hosting(joining, run);
  const auto membership = std::make_shared<job_membership>(
    membership_options{.authority = variable(authority_variable),
                       .joining = std::move(joining),
                       .pipeline_ranks = run.schedule.placement.ranks,
                       .replicas = run.data_parallel,
                       .is_sharded = run.sharding.mode != shard_mode::replicate,
                       .hosting = std::move(first)});
  const auto meet = [membership, level = options.output.log_level](
                      const std::vector<held_rank>& held) {
    auto met = membership->meet(held);
    if (!met.job)
      throw process_end(
        "this process has left the job, which goes on without it", 0);
    log_as_process(met.job->place().process, level);
    return met;
  };
  auto met = meet({});
  run.job = std::move(met.job);
  run.hosting = std::move(met.hosting);
  setup.epoch = met.epoch;
  run.healing.rejoin = meet;
  run.healing.request_hosting =
    [membership](std::vector<std::int32_t> hosting) {
      membership->request_hosting(std::move(hosting));
    };
  run.healing.copy_every = options.healing.snapshot_every;
  return membership;
}

regrouped_run::regrouped_run(trainer& run,
                             std::shared_ptr<job_membership> membership,
                             signal_watch& signals)
  : membership_(std::move(membership)), signals_(signals) {
  if (!membership_)
    return;
  membership_->on_events(
    {.change = [&run](bool at_once) { run.regroup(at_once); },
     .stays = [&signals] { signals.end_drained(); }});
  signals_.on_drain([this](const signal_request& request) {
    membership_->leave();
    return fmt::format(
      "{}: other processes take the ranks of this one; a second signal ends it "
      "at once",
      request.name);
  });
}

regrouped_run::~regrouped_run() {
  if (!membership_)
    return;
  signals_.on_drain({});
  membership_->on_events({});
}

}  // namespace troupe::cli
