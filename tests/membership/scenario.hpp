#pragma once

#include <cstdint>
#include <string>

#include "draws.hpp"
#include "troupe/engine/membership/authority.hpp"
#include "troupe/engine/membership/member.hpp"

namespace troupe::simulated {

/// What a seed draws before anything happens: sizes, settings, and which kinds
/// of faults there are.
struct scenario {
  std::uint64_t seed = 0;
  membership::authority_options authority{};
  membership::member_options member{};
  int processes = 1;
  int snapshot_every = 0, checkpoint_every = 0;  // 0: none
  moment step_time{};
  moment faults_until{}, between_faults{}, bound{};

  bool crashes = false;        // a process ends; its peers see its links close
  bool silent_deaths = false;  // of a machine: nobody sees it
  bool spares_states = false;  // nothing ends that has the last copy of one
  bool known_ends = false;     // the launcher tells the authority of ends
  bool restarts = false;       // a process that ended is started again
  bool pauses = false;         // of a process, beyond its lease
  bool partitions = false;     // of processes and authorities
  bool one_way = false;        // partitions in one direction
  bool cuts = false;           // of a link between two processes
  bool losses = false;         // of reports and orders
  bool doubles = false;        // any message may come twice
  int slow = 0;  // one message in so many is late, by up to seconds; 0: none
  bool authority_ends = false;  // also between storing and sending
  bool two_authorities = false;
  bool store_outages =
    false;              // and swaps of which nobody knows whether they were
  bool wishes = false;  // moves, drains, balance
  bool joins = false;
  bool long_ops = false;  // it may take seconds to come to rest
  bool failed_ops = false;
  std::int64_t poisoned_step = 0;  // fails wherever it runs; 0: none
};

scenario draw_scenario(std::uint64_t seed);
std::string describe(const scenario&);

}  // namespace troupe::simulated
