// Jobs that go on when a process was lost, and started again.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "troupe/actors/job/meeting_messages.hpp"
#include "troupe/actors/trainer_state.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/device/clock.hpp"
#include "troupe/engine/events/event.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

namespace {

std::vector<joined_process> joined_of(std::vector<met_process> met) {
  const auto now = now_ns();
  std::vector<joined_process> all;
  for (auto& each : met)
    all.push_back(
      {each.pid, now - each.age, {std::move(each.core_group), each.cores}});
  return all;
}

}  // namespace

bool trainer::impl::has_lost() const {
  return setup.job()->await_loss({});
}

/// Changes that some processes knew of, and others not, are announced anew.
void trainer::impl::announce_pending() {
  const bool switches = plans.forget_announcement();
  const std::scoped_lock lock(hosting_mutex);
  if (switches || !next_hosting.empty())
    actors.announce_change();
}

std::map<stage_place, std::int32_t> trainer::impl::hosts() const {
  std::map<stage_place, std::int32_t> all;
  for (std::int32_t d = 0; d < setup.options.data_parallel; ++d)
    for (const auto& which : setup.places().instances())
      all[{d, which}] =
        setup.layout.process_of(d, setup.places().rank_of(which));
  return all;
}

std::vector<stage_place> trainer::impl::copies_from_others() const {
  std::vector<stage_place> all;
  for (const auto& [place, host] : hosts())
    if (keeper_of(setup.layout, place.data_rank,
                  setup.places().rank_of(place.stage),
                  setup.options.sharding.shards())
        == setup.layout.process)
      all.push_back(place);
  return all;
}

/// In this process's memory alone.
void trainer::impl::keep_states() {
  for (auto& each : stages.copies(progress(), *kept))
    kept->keep(std::move(each));
}

/// A rank's state is held after a step if those of all its stages are. Before
/// the first copies, the ranks here are as the run began.
std::vector<held_rank> trainer::impl::held_states() const {
  std::map<std::pair<std::int32_t, std::int64_t>, std::size_t> held;
  const auto number_of = [&](std::int32_t data_rank, std::int32_t rank) {
    return data_rank * setup.layout.ranks + rank;
  };
  for (const auto& each : kept->held())
    ++held[{
      number_of(each.place.data_rank, setup.places().rank_of(each.place.stage)),
      each.progress.step}];
  std::vector<held_rank> all;
  const auto& places = setup.places();
  for (const auto& [which, stages_held] : held) {
    const auto rank = which.first % setup.layout.ranks;
    const auto of_rank = std::ranges::count_if(
      places.instances(),
      [&](const auto& each) { return places.rank_of(each) == rank; });
    if (std::cmp_equal(stages_held, of_rank))
      all.push_back({which.first, which.second});
  }
  for (std::int32_t n = 0; !has_copied && n < std::ssize(setup.layout.hosting);
       ++n)
    if (setup.layout.hosting[static_cast<std::size_t>(n)]
        == setup.layout.process)
      all.push_back({n, step});
  return all;
}

void trainer::impl::send_copies() {
  expected_copies = copies_from_others();  // before a move changes them
  for (auto& each : stages.copies(progress(), *kept)) {
    const auto place = from_wire<stage_state_head>(each.head).place;
    const auto keeper = keeper_of(setup.layout, place.data_rank,
                                  setup.places().rank_of(place.stage),
                                  setup.options.sharding.shards());
    kept->keep(each);
    each.type = frame_type::copy;
    if (keeper)
      setup.job()->send(*keeper, std::move(each));
  }
}

void trainer::impl::copy_states() {
  auto* const job = setup.job();
  const auto& options = setup.options.healing;
  if (!job || !options.rejoin
      || (last_copied && step - *last_copied < options.copy_every))
    return;
  // The copies of before are complete in all processes before they are
  // replaced, so that those of one step always are.
  if (last_copied)
    await_copies(*last_copied);
  send_copies();
  if (!last_copied)  // the processes have just met
    await_copies(step);
  last_copied = step;
  has_copied = true;
}

/// Returns when the copies of that step have come in all processes.
void trainer::impl::await_copies(std::int64_t of_step) {
  if (!kept->await(expected_copies, of_step, [this] { return has_lost(); }))
    fail(error_code::transport,
         "a process was lost while copies of states were on their way");
  setup.job()->barrier();
  copied = of_step;
}

/// Between steps, the error tells whether a link caused it.
bool trainer::impl::is_healable(const error& reason) {
  const auto& healing = setup.options.healing;
  if (!setup.job() || !healing.rejoin)
    return false;
  const auto origin = actors.failed_of();
  switch (origin ? origin->kind : kind_of(reason.code())) {
    case failure_kind::link:
      // The leading process may have told of a loss that is about to be seen
      // here.
      return regroups() || setup.job()->await_loss(std::chrono::seconds(5));
    case failure_kind::op:
      // All processes answer alike, also if the first of them have ended.
      return origin ? healing.heals_ops : has_lost();
    case failure_kind::permanent:
      return !origin && has_lost();
  }
  return false;
}

std::optional<failed_op> trainer::impl::failure_of_op(
  const error& reason) const {
  const auto origin = actors.failed_of();
  if (!origin || origin->kind != failure_kind::op)
    return std::nullopt;
  const auto& at = origin->source;
  return failed_op{
    at.step, at.rank < 0 ? -1 : at.data_rank * setup.layout.ranks + at.rank,
    reason.what(), origin->process == setup.layout.process};
}

void trainer::impl::note_members(std::vector<joined_process> processes) {
  const std::scoped_lock lock(hosting_mutex);
  joined = std::move(processes);
}

/// Devices are this process's own.
core_group trainer::impl::own_compute() const {
  auto own = own_cores();
  const auto& devices = setup.options.devices;
  if (devices.empty())
    return own;
  return {fmt::format("{}devices of {}", own.name, ::getpid()),
          static_cast<double>(devices.size())};
}

job_members trainer::impl::members() const {
  const auto now = now_ns();
  const std::scoped_lock lock(hosting_mutex);
  job_members all{
    .epoch = epoch,
    .hosting = next_hosting.empty() ? setup.layout.hosting : next_hosting};
  for (const auto& each : joined)
    all.processes.push_back({each.pid,
                             static_cast<double>(now - each.since) * 1e-9,
                             each.cores.name, each.cores.cores});
  if (setup.layout.processes > 1 && copied >= 0)
    all.copied = copied;
  all.held_bytes = kept->bytes();
  return all;
}

std::optional<recovery> trainer::impl::find_recovery() {
  auto* const job = setup.job();
  if (!job || !setup.options.healing.rejoin)
    return std::nullopt;
  const auto switches = plans.switches();
  const auto cores = own_compute();
  const meeting_state own{
    kept->held(),
    has_copied,
    evaluated,
    {switches, switches > 0 ? to_text(*plans.training()) : std::string{},
     rehosted, setup.layout.hosting},
    requests,
    {::getpid(), now_ns() - began, cores.name, cores.cores}};
  const auto all = job->gather({frame_type::mail, to_wire(own), {}});
  const auto wanted = job->place().leads() ? to_wire(decide(all)) : "";
  auto decision = from_wire<meeting_decision>(
    job->share({frame_type::mail, wanted, {}}).head);
  note_members(joined_of(std::move(decision.processes)));
  requests = decision.requests;
  if (job->place().leads())
    actors.request(requests);
  const auto& changes = decision.changes;
  if (changes.switches > switches)
    plans.go_on_with(changes.plan, changes.switches);
  if (decision.rehosts)
    take_hosting(changes.hosting);
  rehosted = changes.rehosted;
  evaluated = decision.evaluated;
  const auto is_equal = [this](const stage_place& a, const stage_place& b) {
    return a == b || (a.stage == b.stage && !setup.options.sharding.shards());
  };
  auto found = choose_recovery(decision.held, hosts(), is_equal);
  if (!found && decision.has_copied)
    throw states_lost(
      "the job can't heal: of some stage no process that is left holds a "
      "state; resume from a checkpoint");
  return found;
}

void trainer::impl::rejoin(std::optional<failed_op> why) {
  const auto& options = setup.options;
  static_cast<void>(actors.abandon_step());
  if (!actors.await_ops(milliseconds_of(options.execution.limits.leave)))
    fail(error_code::op_failed,
         "the job can't heal: an op of the step that failed does not end");
  auto& job = *options.job;
  const auto meeting_began = now_ns();
  std::int64_t met_epoch = 0;
  do {
    if (const bool is_asked = ending_epoch.exchange(-1) >= epoch;
        why && why->is_here)
      log()->warn("{}; the processes of the job meet again", why->what);
    else if (!why && !is_asked)
      log()->warn("a process is gone: the processes of the job meet again");
    abandoned_epoch = -1;
    job.leave();
    auto met = options.healing.rejoin(held_states(), std::exchange(why, {}));
    met_epoch = met.epoch;
    job.take_over(std::move(met.job));
    change_layout(met.hosting.empty() ? setup.layout.hosting
                                      : std::move(met.hosting));
    add(actors.restart(relinked()), requests);
    stages.publish_to(actors.tensor_outlet());
    tell_of_regroup(met_epoch);
  } while (!meets());
  note_epoch(met_epoch, static_cast<double>(now_ns() - meeting_began) * 1e-9);
}

/// Tells the actors what `regroup` was told of the epoch that runs. A call that
/// comes while there are no actors for it finds them when they are there.
void trainer::impl::tell_of_regroup(std::int64_t running) {
  if (abandoned_epoch >= running)
    actors.interrupt("the processes of the job meet again", true);
  else if (ending_epoch >= running && setup.job()->place().leads())
    actors.announce_change();
}

void trainer::impl::note_epoch(std::int64_t met_epoch, double seconds) {
  epoch = met_epoch;
  meeting_seconds = seconds;
  const auto place = setup.job()->place();
  if (!place.leads())
    return;
  const bool alone = place.processes == 1;
  const auto then =
    step == 0 && !recovered
      ? std::string(alone ? "begins" : "begin")
      : fmt::format("go{} on after step {}", alone ? "es" : "", step);
  log()->info(
    "{} process{} {}; meeting took {:.3g} s, and {:.3g} MiB of states moved",
    place.processes, alone ? "" : "es", then, seconds,
    static_cast<double>(moved_bytes) / (1 << 20));
}

void trainer::impl::publish_epoch() {
  if (const auto seconds = std::exchange(meeting_seconds, {}))
    publish(epoch_event{{.step = step},
                        epoch,
                        setup.job()->place().processes,
                        *seconds,
                        moved_bytes});
}

/// What the process that leads may not have written yet when it is lost.
void trainer::impl::remember(const step_event& outcome) {
  constexpr std::size_t most = 16;
  if (!setup.options.healing.rejoin)
    return;
  outcomes.push_back(outcome);
  if (outcomes.size() > most)
    outcomes.pop_front();
}

bool trainer::impl::meets() {
  try {
    meet();
    return true;
  } catch (const error& reason) {
    if (!setup.options.healing.rejoin || reason.code() != error_code::transport
        || !has_lost())
      throw;
    return false;
  }
}

}  // namespace troupe
