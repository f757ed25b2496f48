#include "simulation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/engine/membership/choose_hosting.hpp"

namespace troupe::simulated {

using namespace membership;
using namespace std::chrono_literals;

simulation::simulation(const scenario& of, bool is_verbose)
  : of_(of),
    random_(mix(of.seed, 2)),
    net_(of, random_),
    check_(of.authority.shape, of.authority.waits_for_leases),
    disk_(of.authority.shape.states()),
    shelf_(random_, of.store_outages),
    is_verbose_(is_verbose) {
  shelf_.on_stored = [this](const job_record& record) { check_stored(record); };
  shelf_.before_swap = [this] { intervene(); };
  start_authority();
  for (int i = 0; i < of.processes; ++i)
    start_process();
  net_.after(of.between_faults, the_world, wake{wake_kind::fault});
  net_.after(of.faults_until, the_world, wake{wake_kind::calm});
}

outcome simulation::run() {
  run_until(moment::max());
  outcome result;
  result.violation = check_.violation();
  result.events = events_;
  result.epochs = check_.epochs();
  result.decisions = check_.decisions();
  result.repeated = check_.repeated();
  result.has_stopped = !shelf_.stored().stop_reason.empty();
  result.has_saved = is_saved_;
  result.recovery = net_.now() - calm_at_;
  return result;
}

void simulation::run_until(moment time) {
  event happened;
  while (check_.violation().empty() && !is_over()
         && !(is_intervening_ && is_calm_) && net_.next(happened, time)) {
    ++events_;
    deliver(happened);
    if (is_calm_ && net_.now() > calm_at_ + of_.bound)
      check_.violated(fmt::format("no progress for {} ms after the last fault",
                                  of_.bound.count() / 1000));
  }
}

bool simulation::is_over() const {
  return is_saved_
         || (is_calm_
             && (!shelf_.stored().stop_reason.empty()
                 || check_.decisions() >= decisions_at_calm_ + 3));
}

bool simulation::is_paused(event& happened) {
  const auto to = happened.to;
  const auto until =
    to >= 0 ? processes_[static_cast<std::size_t>(to)]->paused_until
    : to < the_world
      ? authorities_[static_cast<std::size_t>(-2 - to)].paused_until
      : moment{};
  if (until <= net_.now())
    return false;
  net_.again(until, happened);
  return true;
}

void simulation::deliver(event& happened) {
  if (is_paused(happened))
    return;
  const auto to = happened.to;
  if (is_verbose_)
    say(to, fmt::format("<- {}: {}", happened.from, describe(happened.what)));
  if (to == the_world) {
    on_world(std::get<wake>(happened.what));
  } else if (to >= 0) {
    if (auto& at = *processes_[static_cast<std::size_t>(to)]; at.is_alive())
      at.receive(happened);
  } else {
    const auto index = static_cast<std::size_t>(-2 - to);
    const auto* report = std::get_if<member_report>(&happened.what);
    with_authority(index, [&](authority& machine, moment now) {
      return report != nullptr ? machine.receive(now, *report)
                               : machine.tick(now);
    });
    if (report == nullptr && authorities_[index].is_alive)
      net_.after(250ms, to, wake{});
  }
}

void simulation::on_world(const wake& of) {
  switch (of.kind) {
    case wake_kind::authority_start:
      if (living_authorities().empty())
        start_authority();
      break;
    case wake_kind::process_start:
      start_process(of.number);
      break;
    case wake_kind::end_known:
      if (const auto living = living_authorities(); !living.empty())
        with_authority(living[0], [&](authority& machine, moment now) {
          return machine.member_ended(now, of.number);
        });
      break;
    case wake_kind::fault:
      if (!is_calm_)
        disturb();
      break;
    case wake_kind::heal:
      if (of.number == partitions_)
        net_.heal();
      break;
    case wake_kind::link_healed:
      net_.heal(static_cast<int>(of.epoch), static_cast<int>(of.number));
      break;
    case wake_kind::store_back:
      shelf_.is_out = false;
      break;
    case wake_kind::calm:
      calm();
      break;
    default:
      break;
  }
}

void simulation::start_process(member_id replaces) {
  const auto self = static_cast<int>(processes_.size());
  if (self < 38 || is_calm_)
    processes_.push_back(std::make_unique<process>(
      of_, random_, net_, check_, disk_, *this, self, replaces));
}

void simulation::start_authority() {
  if (authorities_.size() >= 20 && !is_calm_)
    return;
  const auto index = authorities_.size();
  authorities_.push_back({std::make_unique<authority>(of_.authority, shelf_),
                          drifting_clock(random_)});
  net_.after(0ms, address_of_authority(index), wake{});
}

/// One input of an authority. It may end after it has stored its record and
/// before anything is sent.
template <class Call>
void simulation::with_authority(std::size_t index, const Call& call) {
  if (!authorities_[index].is_alive
      || authorities_[index].paused_until > net_.now())
    return;
  const auto swaps = shelf_.swaps;
  swapping_ = index;
  auto& machine = *authorities_[index].machine;
  auto out = call(machine, authorities_[index].clock.local(net_.now()));
  if (of_.authority_ends && !is_calm_ && shelf_.swaps != swaps
      && random_.chance(6)) {
    say(address_of_authority(index), "ends before it sends");
    return end_authority(index);
  }
  send_orders(index, std::move(out));
  if (machine.phase() == authority_phase::deposed)
    end_authority(index);
}

/// An authority may be paused between its decision and the swap, while another
/// one works.
void simulation::intervene() {
  if (is_calm_ || is_intervening_ || !of_.two_authorities || !random_.chance(4))
    return;
  const auto index = swapping_;
  const auto until = net_.now() + random_.time(10, 8000);
  say(address_of_authority(index), "is paused before it stores");
  is_intervening_ = true;
  authorities_[index].paused_until = until;
  start_authority();
  run_until(until);
  is_intervening_ = false;
  swapping_ = index;
  say(address_of_authority(index), "goes on and stores");
}

void simulation::send_orders(std::size_t index, authority_output out) {
  for (const auto& order : out.orders) {
    const auto to = static_cast<int>(order.member);
    net_.send_control(address_of_authority(index), to, order);
    // The worst moments: before a renewal is known, and before a decision.
    if (order.answers > 0 && of_.pauses && !is_calm_ && random_.chance(60))
      pause_process(to, 8000);
  }
  for (const auto member : out.restarts) {
    if (processes_[static_cast<std::size_t>(member)]->is_alive())
      crash(static_cast<int>(member), false);
    net_.after(random_.time(100, 1500), the_world,
               wake{wake_kind::process_start, 0, member});
  }
}

void simulation::end_authority(std::size_t index) {
  authorities_[index].is_alive = false;
  net_.after(random_.time(5, is_calm_ || random_.chance(2) ? 200 : 3000),
             the_world, wake{wake_kind::authority_start});
}

std::vector<std::size_t> simulation::living_authorities() const {
  std::vector<std::size_t> living;
  for (std::size_t i = 0; i < authorities_.size(); ++i)
    if (authorities_[i].is_alive)
      living.push_back(i);
  return living;
}

std::vector<int> simulation::living_processes() const {
  std::vector<int> living;
  for (std::size_t i = 0; i < processes_.size(); ++i)
    if (processes_[i]->is_alive())
      living.push_back(static_cast<int>(i));
  return living;
}

void simulation::send_report(int from, const member_report& report) {
  const auto living = living_authorities();
  if (living.empty())
    return;
  const auto chosen = living.size() == 1
                        ? living[0]
                        : living[static_cast<std::size_t>(random_.between(
                          0, static_cast<std::int64_t>(living.size()) - 1))];
  net_.send_control(from, address_of_authority(chosen), report);
}

/// Older snapshots are dropped: those of that step are there, twice.
void simulation::decided(int self, const membership::epoch& of,
                         const step_decision& decision) {
  check_.decided(self, of, decision.step);
  if (decision.keep_from < 0)
    return;
  for (std::int32_t rank = 0; rank < of_.authority.shape.ranks(); ++rank)
    for (const auto holder : {of.hosting[static_cast<std::size_t>(rank)],
                              neighbour_of(of_.authority.shape, of, rank)})
      if (holder != no_member)
        check_kept(of.number, holder,
                   {rank, decision.keep_from, copy_kind::snapshot});
}

void simulation::check_kept(std::int64_t number, member_id holder,
                            const held_copy& copy) {
  const auto& at = *processes_[static_cast<std::size_t>(holder)];
  if (of_.snapshot_every > 0 && at.is_alive()
      && at.member().current().number == number
      && !at.steps().has_stored(copy.rank, copy.step))
    check_.violated(
      fmt::format("snapshots before step {} are dropped, but "
                  "member {} has none of rank {} of that step",
                  copy.step, holder, copy.rank));
}

void simulation::voted(member_id leader) {
  if (of_.pauses && !is_calm_ && random_.chance(30))
    pause_process(static_cast<int>(leader), 8000);
}

void simulation::ended(int self) {
  say(self, "has left the job");
  processes_[static_cast<std::size_t>(self)]->kill();
  for (const auto other : living_processes())
    net_.after(random_.time(5, 400), other, link_closed{self});
  const auto& record = shelf_.stored();
  const auto is_needed =
    of_.restarts || record.epoch.number == 0 || living_processes().empty();
  if (is_needed && record.stop_reason.empty())
    net_.after(random_.time(100, 2000), the_world,
               wake{wake_kind::process_start, 0, no_member});
}

void simulation::say(int self, const std::string& what) {
  if (is_verbose_)
    fmt::print("{:>10.3f} ms  {:>3}  {}\n",
               static_cast<double>(net_.now().count()) / 1000, self, what);
}

std::vector<member_copies> simulation::living_copies(
  const std::vector<member_id>& members) const {
  std::vector<member_copies> living;
  for (const auto member : members) {
    const auto& at = *processes_[static_cast<std::size_t>(member)];
    if (at.is_alive())
      living.push_back({member, at.steps().copies()});
  }
  return living;
}

void simulation::check_stored(const job_record& record) {
  if (!record.stop_reason.empty())
    return check_stop(record);
  if (record.epoch.number == stored_epoch_)
    return;
  stored_epoch_ = record.epoch.number;
  if (is_verbose_)
    say(the_world, fmt::format("stored: {}", describe(record.epoch)));
  check_.formed(record, living_copies(record.epoch.members));
}

/// All hosts of an epoch in which the job is to end have trained a step, and
/// saved their states.
void simulation::saved(int self, const membership::epoch& of) {
  saved_.emplace(of.number, self);
  is_saved_ = std::ranges::all_of(of.hosting, [&](member_id host) {
    return saved_.contains({of.number, static_cast<int>(host)});
  });
}

/// A job stops for a failing step, after losses, or if states are lost. While
/// processes can't be reached it can't be said from here which it must do
/// without.
void simulation::check_stop(const job_record& record) {
  say(the_world, "the job stops: " + record.stop_reason);
  const auto& why = record.stop_reason;
  const auto is_lost = why.find("no copy") != why.npos;
  const auto is_limit = why.find("lost") != why.npos
                        && of_.authority.policy.lost_member.most < 1000;
  const auto is_policy =
    why == "a process was lost (--on-failure process=stop)"
    && of_.authority.policy.lost_member.action == remedy::stop;
  if (!is_lost && !is_limit && !is_policy && !of_.failed_ops
      && of_.poisoned_step == 0)
    check_.violated("the job stops without a reason: " + record.stop_reason);
  if (!is_lost || of_.partitions || of_.pauses || of_.losses || of_.cuts
      || of_.slow > 0 || of_.two_authorities || of_.authority_ends
      || of_.store_outages)
    return;
  std::vector<member_id> members;
  for (const auto each : living_processes())
    members.push_back(each);
  if (const auto newest = check_.newest_step(living_copies(members)))
    check_.violated(fmt::format(
      "the job stops for lost states, but all of step {} are there", *newest));
}

}  // namespace troupe::simulated
