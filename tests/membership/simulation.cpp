#include "simulation.hpp"

#include <fmt/format.h>

#include <algorithm>

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
  start_authority();
  for (int i = 0; i < of.processes; ++i)
    start_process();
  net_.after(of.between_faults, the_world, wake{wake_kind::fault});
  net_.after(of.faults_until, the_world, wake{wake_kind::calm});
}

outcome simulation::run() {
  outcome result;
  event happened;
  while (check_.violation().empty() && !is_over() && net_.next(happened)) {
    ++result.events;
    deliver(happened);
    if (is_calm_ && net_.now() > calm_at_ + of_.bound)
      check_.violated(fmt::format("no progress for {} ms after the last fault",
                                  of_.bound.count() / 1000));
  }
  result.violation = check_.violation();
  result.epochs = check_.epochs();
  result.decisions = check_.decisions();
  result.repeated = check_.repeated();
  result.has_stopped = !shelf_.stored().stop_reason.empty();
  result.recovery = net_.now() - calm_at_;
  return result;
}

bool simulation::is_over() const {
  return is_calm_
         && (!shelf_.stored().stop_reason.empty()
             || check_.decisions() >= decisions_at_calm_ + 3);
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
      start_process();
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
      net_.heal();
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

void simulation::start_process() {
  const auto self = static_cast<int>(processes_.size());
  if (self < 40)
    processes_.push_back(std::make_unique<process>(of_, random_, net_, check_,
                                                   disk_, *this, self));
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
  auto& host = authorities_[index];
  if (!host.is_alive)
    return;
  const auto swaps = shelf_.swaps;
  auto out = call(*host.machine, host.clock.local(net_.now()));
  if (of_.authority_ends && !is_calm_ && shelf_.swaps != swaps
      && random_.chance(6)) {
    say(address_of_authority(index), "ends before it sends");
    return end_authority(index);
  }
  send_orders(index, std::move(out));
  if (host.machine->phase() == authority_phase::deposed)
    end_authority(index);
}

void simulation::send_orders(std::size_t index, authority_output out) {
  for (const auto& order : out.orders)
    net_.send_control(address_of_authority(index),
                      static_cast<int>(order.member), order);
  for (const auto member : out.restarts) {
    if (processes_[static_cast<std::size_t>(member)]->is_alive())
      crash(static_cast<int>(member), false);
    net_.after(random_.time(100, 1500), the_world,
               wake{wake_kind::process_start});
  }
}

void simulation::end_authority(std::size_t index) {
  authorities_[index].is_alive = false;
  net_.after(random_.time(50, is_calm_ ? 500 : 5000), the_world,
             wake{wake_kind::authority_start});
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

void simulation::ended(int self) {
  say(self, "has left the job");
  processes_[static_cast<std::size_t>(self)]->kill();
  if (of_.restarts && shelf_.stored().stop_reason.empty())
    net_.after(random_.time(100, 2000), the_world,
               wake{wake_kind::process_start});
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

/// A job stops for a failing step, or if states are lost. While processes can't
/// be reached it can't be said from here which it must do without.
void simulation::check_stop(const job_record& record) {
  say(the_world, "the job stops: " + record.stop_reason);
  const auto is_lost = record.stop_reason.starts_with("no copy");
  if (!is_lost && !of_.failed_ops && of_.poisoned_step == 0)
    check_.violated("the job stops without a reason: " + record.stop_reason);
  if (!is_lost || of_.partitions || of_.pauses || of_.losses || of_.cuts
      || of_.slow || of_.two_authorities || of_.authority_ends
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
