#include "checker.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace troupe::simulated {

using namespace membership;

void checker::applied(int self, std::int32_t rank, std::int64_t step,
                      std::uint64_t hash) {
  if (hash != undisturbed_.state(rank, step))
    violated(
      fmt::format("the state of rank {} after step {} at member {} is "
                  "not that of the undisturbed run",
                  rank, step, self));
}

void checker::applied_step(int self, std::int64_t epoch, std::int64_t step) {
  if (!decided_.contains({epoch, step}))
    violated(
      fmt::format("member {} applies step {} of epoch {}, which was not "
                  "decided",
                  self, step, epoch));
  if (epoch < last_begun_
      && (is_strict_
          || std::ranges::count(epochs_[last_begun_].members, self) > 0))
    violated(
      fmt::format("two maps run: member {} applies step {} of epoch {}, "
                  "but epoch {} has begun",
                  self, step, epoch, last_begun_));
}

void checker::decided(int self, const membership::epoch& of,
                      std::int64_t step) {
  if (!std::ranges::all_of(of.hosting, [&](member_id host) {
        return prepared_.contains({of.number, step, host});
      }))
    violated(
      fmt::format("member {} decides step {} of epoch {} before all "
                  "gradients are complete",
                  self, step, of.number));
  if (of.number < last_begun_ && (is_strict_ || ++late_[of.number] > 1))
    violated(
      fmt::format("two maps run: member {} decides step {} of epoch {}, "
                  "but epoch {} has begun",
                  self, step, of.number, last_begun_));
  decided_.insert({of.number, step});
  ++decisions_;
  if (step <= last_decided_)
    ++repeated_;
  last_decided_ = step;
}

void checker::begun(int self, const membership::epoch& of) {
  last_begun_ = std::max(last_begun_, of.number);
  const auto& first = epochs_.emplace(of.number, of).first->second;
  if (first.from_step != of.from_step || first.hosting != of.hosting)
    violated(
      fmt::format("member {} begins epoch {} with another step or "
                  "hosting than others",
                  self, of.number));
}

void checker::formed(const job_record& record,
                     const std::vector<member_copies>& living) {
  const auto& of = record.epoch;
  if (of.number != last_formed_ + 1)
    violated(fmt::format("epoch {} is stored after epoch {}", of.number,
                         last_formed_));
  last_formed_ = of.number;
  if (const auto newest = newest_step(living); newest && of.from_step < *newest)
    violated(
      fmt::format("epoch {} begins with step {}, but its members have "
                  "all states of step {}",
                  of.number, of.from_step, *newest));
}

std::optional<std::int64_t> checker::newest_step(
  const std::vector<member_copies>& living) const {
  std::set<std::int64_t> steps;
  std::int64_t last_applied = -1;
  for (const auto& [member, copies] : living)
    for (const auto& copy : copies) {
      steps.insert(copy.step);
      if (copy.kind == copy_kind::applied)
        last_applied = std::max(last_applied, copy.step);
    }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (is_whole(living, *step, *step <= last_applied))
      return *step;
  return std::nullopt;
}

bool checker::is_whole(const std::vector<member_copies>& living,
                       std::int64_t step, bool counts_prepared) const {
  std::set<std::int32_t> found;
  for (const auto& [member, copies] : living)
    for (const auto& copy : copies)
      if (copy.step == step
          && (counts_prepared || copy.kind != copy_kind::prepared))
        found.insert(shape_.state_of(copy.rank));
  return std::cmp_equal(found.size(), shape_.states());
}

}  // namespace troupe::simulated
