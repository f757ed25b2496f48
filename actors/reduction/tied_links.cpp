#include "troupe/actors/reduction/tied_links.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <set>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

tied_links::tied_links(tied_group group, std::int32_t process, sender send)
  : group_(std::move(group)), process_(process), send_(std::move(send)) {
  for (std::size_t t = 0; t < group_.stages.size(); ++t)
    for (const auto stage : group_.stages[t])
      holders_.push_back({static_cast<std::int32_t>(t), stage});
}

bool tied_links::run(std::int64_t call,
                     std::vector<collective_request>& members) {
  call_ = call;
  members_ = &members;
  parts_[call];  // none, where a shard has nothing of tied parameters
  for (const auto& each : members)
    give(each);
  return finish();
}

/// A missing gradient is a part without elements.
void tied_links::give(const collective_request& from) {
  std::map<std::int32_t, std::int32_t> next;  // holder, by tie
  for (const auto& each : from.work.tied) {
    const auto first = std::ranges::find_if(holders_, [&](const holder& of) {
      return of.tie == each.tie && of.stage == from.owner.stage;
    });
    const auto holder =
      static_cast<std::int32_t>(first - holders_.begin()) + next[each.tie]++;
    const auto& gradient = from.work.tensors.at(each.position);
    const collective_part part{
      from.serial,
      from.owner.stage,
      none,
      holder,
      gradient.defined() ? gradient.reshape(-1).clone() : at::empty({0}),
      call_,
      collective_kind::tied_sum,
      group_.data_rank,
      group_.copy};
    std::set<std::int32_t> readers;
    for (const auto& other : holders_)
      if (other.tie == each.tie)
        readers.insert(owner(other));
    readers.erase(process_);
    for (const auto process : readers)
      send_(process, part);
    put(part);
  }
}

void tied_links::put(const collective_part& part) {
  if (!parts_[part.call].emplace(part.piece, part.values).second)
    fail(error_code::mismatch, "a part of {} of stage {} arrived twice",
         to_text(part.kind), part.stage);
}

bool tied_links::on(collective_part part) {
  const at::NoGradGuard no_grad;
  const auto next = members_ ? call_ : call_ + 1;
  const bool belongs =
    part.kind == collective_kind::tied_sum && part.piece >= 0
    && part.piece < std::ssize(holders_)
    && owner(holders_[static_cast<std::size_t>(part.piece)]) != process_;
  if (!belongs || part.call < next || part.call > call_ + 1)
    fail(error_code::mismatch,
         "a part of {} of stage {} (call {} of holder {}) belongs elsewhere, "
         "or arrived while this process is at call {}",
         to_text(part.kind), part.stage, part.call, part.piece, next);
  put(part);
  return finish();
}

bool tied_links::has_all(const collective_request& member) const {
  const auto& there = parts_.at(call_);
  for (const auto& each : member.work.tied)
    for (std::size_t h = 0; h < holders_.size(); ++h)
      if (holders_[h].tie == each.tie
          && !there.contains(static_cast<std::int32_t>(h)))
        return false;
  return true;
}

bool tied_links::finish() {
  if (!members_ || !std::ranges::all_of(*members_, [this](const auto& each) {
        return has_all(each);
      }))
    return false;
  for (auto& each : *members_)
    take_sums(each);
  parts_.erase(call_);
  members_ = nullptr;
  return true;
}

/// Each member adds for itself, to memory of its own.
void tied_links::take_sums(collective_request& into) const {
  const auto& there = parts_.at(call_);
  for (const auto& each : into.work.tied) {
    const auto& like = into.work.targets.at(each.position);
    tensor_list gradients;
    for (std::size_t h = 0; h < holders_.size(); ++h) {
      if (holders_[h].tie != each.tie)
        continue;
      const auto& values = there.at(static_cast<std::int32_t>(h));
      const bool is_there = values.numel() > 0;
      if (is_there
          && (values.numel() != like.numel() || !values.is_floating_point()))
        fail(error_code::mismatch,
             "a holder of a tied parameter of stage {} sent {}, and has {}; do "
             "all processes have the same model?",
             into.owner.stage, describe(values), describe(like));
      gradients.push_back(is_there ? values.view(like.sizes()).clone()
                                   : at::Tensor{});
    }
    into.work.tensors[each.position] = gradient_mean(1).of(gradients);
  }
}

}  // namespace troupe
