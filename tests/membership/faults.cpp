#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulation.hpp"

namespace troupe::simulated {

using namespace membership;

/// One fault of the kinds that this seed has, and later the next.
void simulation::disturb() {
  net_.after(random_.time(50, 2 * of_.between_faults.count() / 1000), the_world,
             wake{wake_kind::fault});
  using fault = void (simulation::*)();
  const std::array<std::pair<bool, fault>, 10> kinds{{
    {of_.crashes, &simulation::end_process},
    {of_.silent_deaths, &simulation::kill_machine},
    {of_.pauses, &simulation::pause},
    {of_.partitions, &simulation::part},
    {of_.cuts, &simulation::cut_link},
    {of_.authority_ends, &simulation::end_some_authority},
    {of_.two_authorities, &simulation::start_authority},
    {of_.store_outages, &simulation::lose_store},
    {of_.wishes, &simulation::wish},
    {of_.joins, &simulation::join},
  }};
  const auto has_any =
    std::ranges::any_of(kinds, [](const auto& kind) { return kind.first; });
  while (has_any) {
    const auto& [is_on, happen] =
      kinds[static_cast<std::size_t>(random_.between(0, 9))];
    if (is_on)
      return (this->*happen)();
  }
}

int simulation::any_process() {
  const auto living = living_processes();
  return living.empty() ? -1
                        : living[static_cast<std::size_t>(random_.between(
                          0, static_cast<std::int64_t>(living.size()) - 1))];
}

void simulation::end_process() {
  if (const auto any = any_process(); any >= 0 && may_die(any))
    crash(any, false);
}

void simulation::kill_machine() {
  if (const auto any = any_process(); any >= 0 && may_die(any))
    crash(any, true);
}

/// In most seeds a copy of each state stays alive.
bool simulation::may_die(int victim) {
  if (!of_.spares_states)
    return true;
  std::vector<member_id> others;
  for (const auto each : living_processes())
    if (each != victim)
      others.push_back(each);
  return check_.newest_step(living_copies(others)).has_value();
}

void simulation::join() {
  if (living_processes().size() < 9)
    start_process();
}

void simulation::lose_store() {
  if (std::exchange(shelf_.is_out, true))
    return;
  say(the_world, "the store can't be reached");
  net_.after(random_.time(100, 5000), the_world, wake{wake_kind::store_back});
}

void simulation::crash(int self, bool is_silent) {
  say(self, is_silent ? "dies with its machine" : "ends");
  processes_[static_cast<std::size_t>(self)]->kill();
  if (!is_silent)
    for (const auto other : living_processes())
      net_.after(random_.time(5, 400), other, link_closed{self});
  if (of_.known_ends && !is_silent)
    net_.after(random_.time(5, 200), the_world,
               wake{wake_kind::end_known, 0, self});
  if (of_.restarts)
    net_.after(random_.time(100, 3000), the_world,
               wake{wake_kind::process_start, 0, self});
}

void simulation::pause() {
  const auto authorities = living_authorities();
  if (const auto any = any_process(); any >= 0 && !random_.chance(4))
    return pause_process(any, random_.chance(2) ? 1000 : 8000);
  if (authorities.empty())
    return;
  const auto index = authorities[static_cast<std::size_t>(
    random_.between(0, static_cast<std::int64_t>(authorities.size()) - 1))];
  auto& until = authorities_[index].paused_until;
  until = std::max(until, net_.now() + random_.time(100, 8000));
  say(address_of_authority(index), "is paused");
}

void simulation::pause_process(int self, std::int64_t most_ms) {
  const auto until = net_.now() + random_.time(100, most_ms);
  processes_[static_cast<std::size_t>(self)]->paused_until = until;
  say(self, fmt::format("is paused until {} ms", until.count() / 1000));
}

void simulation::part() {
  if (net_.is_parted() && !random_.chance(4))
    return;
  std::vector<bool> sides(64);
  const auto kind = random_.between(0, 3);
  const auto& hosting = shelf_.stored().epoch.hosting;
  const auto is_host = [&](std::size_t i) {
    return std::ranges::count(hosting, static_cast<member_id>(i)) > 0;
  };
  // Authorities alone, with a few processes, or with all that host nothing; or
  // two halves.
  for (std::size_t i = 0; i < sides.size(); ++i)
    sides[i] = kind == 0   ? i >= 40
               : kind == 1 ? i >= 40 || random_.chance(4)
               : kind == 2 ? !is_host(i)
                           : random_.chance(2);
  net_.set_partition(std::move(sides), of_.one_way && random_.chance(2));
  net_.after(random_.time(100, random_.chance(2) ? 12000 : 1000), the_world,
             wake{wake_kind::heal, 0, ++partitions_});
  say(the_world, "the network is parted");
}

void simulation::cut_link() {
  const auto a = any_process(), b = any_process();
  if (a == b)
    return;
  net_.cut(a, b);
  net_.after(random_.time(5, 400), a, link_closed{b});
  net_.after(random_.time(5, 400), b, link_closed{a});
  net_.after(random_.time(50, random_.chance(2) ? 8000 : 1000), the_world,
             wake{wake_kind::link_healed, a, b});
  say(a, fmt::format("its link to {} is cut", b));
}

void simulation::end_some_authority() {
  const auto living = living_authorities();
  if (living.empty())
    return;
  say(address_of_authority(living[0]), "ends");
  end_authority(living[0]);
}

void simulation::wish() {
  const auto authorities = living_authorities();
  const auto member = any_process();
  if (authorities.empty() || member < 0)
    return;
  const auto rank = static_cast<std::int32_t>(
    random_.between(0, of_.authority.shape.ranks() - 1));
  const auto kind = random_.between(0, 3);
  say(the_world,
      fmt::format("wish {} for member {}, rank {}", kind, member, rank));
  if (kind == 0)
    return processes_[static_cast<std::size_t>(member)]->drain();
  with_authority(authorities[0], [&](authority& machine, moment now) {
    return kind == 1   ? machine.move(now, {rank, member})
           : kind == 2 ? machine.drain(now, member)
                       : machine.balance(now);
  });
}

/// All faults end, and what a launcher starts again is started.
void simulation::calm() {
  say(the_world, "calm");
  is_calm_ = true;
  calm_at_ = net_.now();
  decisions_at_calm_ = check_.decisions();
  net_.calm();
  shelf_.calm();
  for (auto& each : processes_)
    each->paused_until = {};
  for (auto& each : authorities_)
    each.paused_until = {};
  if (living_authorities().empty())
    start_authority();
  const auto living = static_cast<std::int32_t>(living_processes().size());
  for (auto i = living; i < of_.authority.least_members; ++i)
    start_process();
}

}  // namespace troupe::simulated
