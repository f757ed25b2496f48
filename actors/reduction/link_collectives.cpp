#include "troupe/actors/reduction/link_collectives.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/ties.hpp"

namespace troupe {

namespace {

at::Tensor row_of(const tensor_list& tensors, std::int32_t stage) {
  tensor_list flat;
  for (const auto& each : tensors) {
    if (each.scalar_type() != tensors[0].scalar_type())
      fail(error_code::mismatch,
           "the gradients of stage {} have several dtypes, which replicas of "
           "several processes can't average yet",
           stage);
    flat.push_back(each.reshape(-1));
  }
  return flat.empty() ? at::empty({0}) : at::cat(flat);
}

}  // namespace

link_collectives::link_collectives(collective_group group, std::int32_t process,
                                   sender send)
  : group_(std::move(group)),
    copies_(std::max(1, static_cast<std::int32_t>(group_.owners.size())
                          / std::max(1, group_.mean.replicas()))),
    process_(process),
    send_(std::move(send)) {
  if (group_.ties.empty())
    owners_ = group_.owners;
  const auto stages = joined(group_.ties);
  for (std::size_t t = 0; t < group_.ties.size(); ++t)
    for (const auto stage : group_.ties[t]) {
      const auto member = std::ranges::lower_bound(stages, stage);
      holders_.push_back({static_cast<std::int32_t>(t), stage});
      owners_.push_back(
        group_.owners.at(static_cast<std::size_t>(member - stages.begin())));
    }
}

/// The member whose process reduces a piece.
std::int32_t link_collectives::reducer(collective_kind kind,
                                       std::int32_t piece) const {
  return kind == collective_kind::reduce_scatter ? piece * copies_ : piece;
}

/// The processes that need a result: of a gather, what a member has; of a sum,
/// a holder's gradient.
std::set<std::int32_t> link_collectives::readers(collective_kind kind,
                                                 std::int32_t piece) const {
  std::set<std::int32_t> processes;
  const auto tie_of = [this](std::int32_t h) {
    return holders_.at(static_cast<std::size_t>(h)).tie;
  };
  for (std::int32_t m = 0; m < count(); ++m) {
    if (kind == collective_kind::tied_sum) {
      if (tie_of(m) == tie_of(piece))
        processes.insert(owner(m));
      continue;
    }
    const bool same_shard = data_rank(m) % shards_ == piece;
    const bool same_group =
      m % copies_ == piece % copies_
      && data_rank(m) / shards_ == data_rank(piece) / shards_;
    if (kind == collective_kind::all_reduce
        || (kind == collective_kind::reduce_scatter ? same_shard : same_group))
      processes.insert(owner(m));
  }
  return processes;
}

/// Whether this process needs a piece of the running call. A shard may have
/// nothing of a tied parameter.
bool link_collectives::needs(collective_kind kind, std::int32_t piece) const {
  if (kind != collective_kind::tied_sum)
    return readers(kind, piece).contains(process_);
  const auto tie = holders_.at(static_cast<std::size_t>(piece)).tie;
  return std::ranges::any_of(*members_, [&](const auto& member) {
    const auto& tied = std::get<tied_sum>(member.work).tied;
    return std::ranges::count(tied, tie, &tied_gradient::tie) > 0;
  });
}

bool link_collectives::run(std::int64_t call,
                           std::vector<collective_request>& members) {
  call_ = call;
  members_ = &members;
  const auto& first = members.front();
  const auto* scattered = std::get_if<reduce_scatter>(&first.work);
  const auto* gathered = std::get_if<all_gather>(&first.work);
  shards_ = scattered  ? scattered->layouts.at(0)->shards()
            : gathered ? gathered->layouts.at(0)->shards()
                       : 1;
  auto& kind = calls_[call].kind;
  const auto own = kind_of(first.work);
  require_same(call, first.owner.stage, own, kind.value_or(own));
  kind = own;
  for (const auto& each : members)
    std::visit([&](const auto& work) { give(each, work); }, each.work);
  return finish();
}

collective_part link_collectives::part_of(const collective_request& from,
                                          std::int32_t piece,
                                          const reduction& work) const {
  collective_part part{
    from.serial, from.owner.stage,  member_of(from), piece, {},
    call_,       kind_of(from.work)};
  part.absent = work.absent;
  return part;
}

void link_collectives::give_piece(collective_part part) {
  if (const auto process = owner(reducer(part.kind, part.piece));
      process == process_)
    add(std::move(part));
  else
    send_(process, std::move(part));
}

void link_collectives::give(const collective_request& from,
                            const all_reduce& work) {
  const auto row = row_of(work.gradients, from.owner.stage);
  for (std::int32_t p = 0; p < count(); ++p) {
    auto part = part_of(from, p, work);
    const auto begin = row.numel() * p / count();
    part.values = row.narrow(0, begin, row.numel() * (p + 1) / count() - begin);
    give_piece(std::move(part));
  }
}

void link_collectives::give(const collective_request& from,
                            const reduce_scatter& work) {
  for (std::int32_t p = 0; p < shards_; ++p) {
    auto part = part_of(from, p, work);
    part.values = row_of(pieces_of(work, p), from.owner.stage);
    give_piece(std::move(part));
  }
}

/// Gives a shard without its padding.
void link_collectives::give(const collective_request& from,
                            const all_gather& work) {
  tensor_list contents;
  for (std::size_t row = 0; row < work.shards.size(); ++row)
    contents.push_back(work.shards[row].narrow(
      0, 0, work.layouts[row]->content(from.data_rank % shards_)));
  hand_out({from.serial, from.owner.stage, none, member_of(from),
            at::cat(contents), call_, collective_kind::all_gather});
}

/// A missing gradient is a part without elements.
void link_collectives::give(const collective_request& from,
                            const tied_sum& work) {
  std::map<std::int32_t, std::int32_t> next;  // holder, by tie
  for (const auto& each : work.tied) {
    const auto first = std::ranges::find_if(holders_, [&](const holder& of) {
      return of.tie == each.tie && of.stage == from.owner.stage;
    });
    const auto holder =
      static_cast<std::int32_t>(first - holders_.begin()) + next[each.tie]++;
    const auto& gradient = work.gradients.at(each.position);
    hand_out(
      {from.serial, from.owner.stage, none, holder,
       gradient.defined() ? gradient.reshape(-1).clone() : at::empty({0}),
       call_, collective_kind::tied_sum, group_.data_rank, group_.copy});
  }
}

void link_collectives::hand_out(collective_part result) {
  const auto processes = readers(result.kind, result.piece);
  for (const auto process : processes)
    if (process != process_)
      send_(process, result);
  if (processes.contains(process_))
    put(std::move(result));
}

void link_collectives::require_legal(const collective_part& part) const {
  const auto pieces = part.kind == collective_kind::reduce_scatter
                        ? group_.mean.replicas()
                        : count();
  const bool is_result = part.member == none;
  const bool is_sum = part.kind == collective_kind::tied_sum;
  if (part.piece < 0 || part.piece >= pieces || part.member < none
      || part.member >= count() || is_sum == group_.ties.empty()
      || (is_sum && owner(part.piece) == process_)
      || ((is_sum || part.kind == collective_kind::all_gather) && !is_result)
      || (!is_result && owner(reducer(part.kind, part.piece)) != process_)
      || std::ranges::adjacent_find(part.absent, std::greater_equal())
           != part.absent.end())
    fail(error_code::mismatch,
         "a part of {} of stage {} (piece {} of member {}) belongs elsewhere",
         to_text(part.kind), part.stage, part.piece, part.member);
  // Processes are ahead by gathers of other groups at most, within a step, and
  // by one sum, which all of its group take part in.
  constexpr std::int64_t most_ahead = 1 << 16;
  const auto next = members_ ? call_ : call_ + 1;
  if (part.call < next || part.call > (is_sum ? call_ + 1 : next + most_ahead))
    fail(
      error_code::mismatch,
      "a part of collective {} of stage {} arrived while this process is at {}",
      part.call, part.stage, next);
}

void link_collectives::require_same(std::int64_t call, std::int32_t stage,
                                    collective_kind here,
                                    collective_kind there) const {
  if (here != there)
    fail(error_code::mismatch,
         "collective {} of stage {} is {} here (process {}), and {} in another "
         "process",
         call, stage, to_text(here), process_, to_text(there));
}

bool link_collectives::on(collective_part part) {
  const at::NoGradGuard no_grad;
  require_legal(part);
  auto& kind = calls_[part.call].kind;
  require_same(part.call, part.stage, kind.value_or(part.kind), part.kind);
  kind = part.kind;
  if (part.member != none)
    add(std::move(part));
  else
    put(std::move(part));
  return finish();
}

/// A part of a piece that is reduced here.
void link_collectives::add(collective_part part) {
  auto& parts = calls_[part.call].parts[part.piece];
  parts.resize(owners_.size());
  auto& place = parts[static_cast<std::size_t>(part.member)];
  if (place.values.defined())
    fail(error_code::mismatch,
         "piece {} of stage {}'s gradients arrived twice from member {}",
         part.piece, part.stage, part.member);
  place = std::move(part);
  if (!std::ranges::all_of(
        parts, [](const auto& each) { return each.values.defined(); }))
    return;
  hand_out(reduced(std::exchange(parts, {})));
}

/// Reduces all members' parts of a piece to its result.
collective_part link_collectives::reduced(
  std::vector<collective_part> parts) const {
  auto result = parts.front();
  result.member = none;
  tensor_list values;
  for (auto& each : parts) {
    if (each.values.numel() != result.values.numel()
        || each.values.scalar_type() != result.values.scalar_type())
      fail(error_code::mismatch,
           "members have different gradients of stage {}: {} and {}",
           result.stage, describe(result.values), describe(each.values));
    result.absent = common(result.absent, each.absent);
    values.push_back(std::move(each.values));
  }
  result.values = group_.mean.of(values);
  return result;
}

void link_collectives::put(collective_part result) {
  const auto piece = result.piece;
  const auto [place, is_new] =
    calls_[result.call].results.emplace(piece, std::move(result));
  if (!is_new)
    fail(error_code::mismatch, "piece {} of {} of stage {} arrived twice",
         piece, to_text(place->second.kind), place->second.stage);
}

bool link_collectives::finish() {
  if (!members_)
    return false;
  const auto& state = calls_[call_];
  const auto kind = *state.kind;
  const auto pieces =
    kind == collective_kind::reduce_scatter ? shards_ : count();
  for (std::int32_t p = 0; p < pieces; ++p)
    if (needs(kind, p) && !state.results.contains(p))
      return false;
  for (auto& each : *members_)
    std::visit([&](auto& work) { take(each, work, state.results); }, each.work);
  calls_.erase(call_);
  members_ = nullptr;
  return true;
}

}  // namespace troupe
