#include "scenario.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::simulated {
namespace {

using namespace std::chrono_literals;

void draw_sizes(draws& random, scenario& of) {
  auto& shape = of.authority.shape;
  shape.pipeline_ranks = static_cast<int>(random.between(1, 8));
  shape.replicas =
    random.chance(2) ? 1 : static_cast<int>(random.between(2, 3));
  shape.pipeline_ranks =
    std::min(shape.pipeline_ranks, random.chance(4) ? 8 : 12 / shape.replicas);
  if (random.chance(3))
    shape = {.pipeline_ranks = static_cast<int>(random.between(1, 2))};
  shape.is_sharded = shape.replicas > 1 && random.chance(4);
  of.processes = static_cast<int>(
    random.between(random.chance(6) ? 1 : 2, random.chance(2) ? 4 : 8));
  of.snapshot_every = static_cast<int>(random.between(0, 3));
  of.authority.keeps_snapshots = of.snapshot_every > 0;
  of.checkpoint_every = random.chance(3) ? 0 : 3;
}

void draw_times(draws& random, scenario& of) {
  of.authority.waits_for_leases = random.chance(2);
  of.authority.silent_after = 2s;
  of.authority.accused_after = random.time(200, 1000);
  of.authority.lease = random.chance(2) ? 6s : 3500ms;
  of.authority.rest_within = 4s;
  of.authority.policy.restart_patience = 3s;
  of.authority.unfit_for = random.time(2000, 20000);
  of.member.lease = of.authority.lease;
  of.member.lease_margin = 150ms;
  of.member.report_every = 400ms;
  of.step_time = random.time(100, 600);
  of.faults_until = random.time(6000, 24000);
  of.between_faults = random.time(50, 1000);
  of.bound = 2 * (of.authority.lease + of.authority.silent_after)
             + of.authority.policy.restart_patience + of.authority.rest_within
             + 12s;
}

void draw_faults(draws& random, scenario& of) {
  const auto rarity = random.between(2, 4);
  of.crashes = random.chance(2);
  of.silent_deaths = random.chance(2);
  for (auto* kind : {&of.pauses, &of.partitions, &of.cuts, &of.losses,
                     &of.doubles, &of.authority_ends, &of.two_authorities,
                     &of.store_outages, &of.wishes, &of.joins})
    *kind = random.chance(rarity);
  if (random.chance(rarity))
    of.slow = random.chance(2) ? 8 : 3;
  of.one_way = random.chance(3);
  of.spares_states = !random.chance(4);
  of.known_ends = random.chance(2);
  of.restarts = !random.chance(3);
  of.long_ops = random.chance(4);
  of.failed_ops = random.chance(8);
  if (random.chance(40))
    of.poisoned_step = random.between(1, 12);
}

/// Few hosts that others can replace, cut off from their authority: what leases
/// are for.
void draw_cut_off_hosts(draws& random, scenario& of) {
  of.authority.shape = {.pipeline_ranks =
                          static_cast<int>(random.between(1, 2))};
  of.processes = static_cast<int>(random.between(3, 5));
  of.checkpoint_every = 3;
  of.step_time = random.time(100, 300);
  of.partitions = of.doubles = of.spares_states = true;
  of.one_way = of.cuts = of.losses = of.store_outages = false;
  of.crashes = of.silent_deaths = of.wishes = of.failed_ops = false;
  of.slow = 3;
  of.poisoned_step = 0;
}

void draw_policy(draws& random, scenario& of) {
  using membership::remedy;
  auto& policy = of.authority.policy;
  policy.lost_member = {
    random.chance(3) && of.restarts ? remedy::restart : remedy::rehost, 1000,
    60s};
  policy.failed_op = {random.chance(2) ? remedy::retry : remedy::rehost, 6,
                      60s};
}

/// Policies by which jobs end, at once or after one more epoch.
void draw_ends(draws& random, scenario& of) {
  auto& policy = of.authority.policy;
  of.authority.ends_in_epoch = !random.chance(4);
  if (random.chance(3))
    policy.lost_member.action = membership::remedy::stop;
  policy.lost_member.most = static_cast<int>(random.between(1, 4));
  if (random.chance(3))
    policy.failed_op.action = membership::remedy::stop;
  policy.failed_op.most = static_cast<int>(random.between(1, 6));
}

}  // namespace

scenario draw_scenario(std::uint64_t seed) {
  draws random(mix(seed, 1));
  scenario of;
  of.seed = seed;
  draw_sizes(random, of);
  draw_times(random, of);
  draw_faults(random, of);
  draw_policy(random, of);
  if (random.chance(8))
    draw_cut_off_hosts(random, of);
  of.authority.least_members =
    static_cast<int>(random.between(1, of.processes));
  if (random.chance(10))
    draw_ends(random, of);
  return of;
}

std::string describe(const scenario& of) {
  auto text = fmt::format(
    "seed {}: {} pipeline ranks x {} replicas{} in {} processes, snapshots "
    "every {}, checkpoints every {}, {}lease {} ms, step {} ms; faults:",
    of.seed, of.authority.shape.pipeline_ranks, of.authority.shape.replicas,
    of.authority.shape.is_sharded ? " (sharded)" : "", of.processes,
    of.snapshot_every, of.checkpoint_every,
    of.authority.waits_for_leases ? "strict " : "",
    of.authority.lease.count() / 1000, of.step_time.count() / 1000);
  const auto add = [&](bool is_on, const char* name) {
    if (is_on)
      text += fmt::format(" {}", name);
  };
  add(of.crashes, "crashes");
  add(of.silent_deaths, "silent_deaths");
  add(of.spares_states, "spares_states");
  add(of.known_ends, "known_ends");
  add(of.restarts, "restarts");
  add(of.pauses, "pauses");
  add(of.partitions, of.one_way ? "one_way_partitions" : "partitions");
  add(of.cuts, "cuts");
  add(of.losses, "losses");
  add(of.doubles, "doubles");
  add(of.slow > 0, "slow");
  add(of.authority_ends, "authority_ends");
  add(of.two_authorities, "two_authorities");
  add(of.store_outages, "store_outages");
  add(of.wishes, "wishes");
  add(of.joins, "joins");
  add(of.long_ops, "long_ops");
  add(of.failed_ops, "failed_ops");
  add(of.poisoned_step > 0, "poisoned_step");
  return text;
}

}  // namespace troupe::simulated
