#include "troupe/actors/reduction/link_collectives.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
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

/// Of a shard. All members of it get the row of presence, which is the last
/// tensor.
tensor_list pieces_with_presence(const collective_work& work,
                                 std::int32_t shard) {
  tensor_list parts;
  for (const auto& piece : pieces_of(work.layouts, shard))
    parts.push_back(work.tensors[piece.parameter].reshape(-1).narrow(
      0, piece.begin, piece.count));
  if (!work.tensors.empty())
    parts.push_back(work.tensors.back());
  return parts;
}

void require_dtype(const at::Tensor& values, const collective_work& work) {
  for (const auto& target : work.targets)
    if (values.scalar_type() != target.scalar_type())
      fail(error_code::mismatch, "another process sent {} for {}, which has {}",
           at::toString(values.scalar_type()), to_text(work.kind),
           at::toString(target.scalar_type()));
}

void copy_row(const at::Tensor& row, tensor_list& tensors) {
  std::int64_t begin = 0;
  for (auto& each : tensors) {
    const auto part = row.narrow(0, begin, each.numel()).view(each.sizes());
    begin += each.numel();
    if (each.scalar_type() == row.scalar_type())
      each.copy_(part);
    else
      each = part.clone();
  }
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

/// For the running call. A shard may have nothing of a tied parameter.
bool link_collectives::needs(collective_kind kind, std::int32_t piece) const {
  if (kind != collective_kind::tied_sum)
    return readers(kind, piece).contains(process_);
  const auto tie = holders_.at(static_cast<std::size_t>(piece)).tie;
  return std::ranges::any_of(*members_, [&](const auto& member) {
    return std::ranges::count(member.work.tied, tie, &tied_gradient::tie) > 0;
  });
}

bool link_collectives::run(std::int64_t call,
                           std::vector<collective_request>& members) {
  call_ = call;
  members_ = &members;
  const auto& first = members.front();
  shards_ = first.work.layouts.empty() ? 1 : first.work.layouts[0]->shards();
  auto& kind = calls_[call].kind;
  require_same(call, first.owner.stage, first.work.kind,
               kind.value_or(first.work.kind));
  kind = first.work.kind;
  for (const auto& each : members)
    give(each);
  return finish();
}

void link_collectives::give(const collective_request& from) {
  if (from.work.kind == collective_kind::tied_sum)
    give_tied(from);
  else if (from.work.kind == collective_kind::all_gather)
    give_shards(from);
  else
    give_gradients(from);
}

void link_collectives::give_gradients(const collective_request& from) {
  const auto& work = from.work;
  const bool scatters = work.kind == collective_kind::reduce_scatter;
  const auto pieces = scatters ? shards_ : count();
  const auto row =
    scatters ? at::Tensor{} : row_of(work.tensors, from.owner.stage);
  for (std::int32_t p = 0; p < pieces; ++p) {
    collective_part part{from.serial, from.owner.stage, member_of(from), p, {},
                         call_,       work.kind};
    if (scatters) {
      part.values = row_of(pieces_with_presence(work, p), from.owner.stage);
    } else {
      const auto begin = row.numel() * p / pieces;
      part.values =
        row.narrow(0, begin, row.numel() * (p + 1) / pieces - begin);
    }
    if (const auto process = owner(reducer(work.kind, p)); process == process_)
      add(part);
    else
      send_(process, std::move(part));
  }
}

/// Without the padding.
void link_collectives::give_shards(const collective_request& from) {
  const auto& work = from.work;
  tensor_list contents;
  for (std::size_t row = 0; row < work.tensors.size(); ++row)
    contents.push_back(work.tensors[row].narrow(
      0, 0, work.layouts[row]->content(from.data_rank % shards_)));
  const collective_part part{from.serial,     from.owner.stage,  none,
                             member_of(from), at::cat(contents), call_,
                             work.kind};
  hand_out(part);
}

/// A missing gradient is a part without elements.
void link_collectives::give_tied(const collective_request& from) {
  std::map<std::int32_t, std::int32_t> next;  // holder, by tie
  for (const auto& each : from.work.tied) {
    const auto first = std::ranges::find_if(holders_, [&](const holder& of) {
      return of.tie == each.tie && of.stage == from.owner.stage;
    });
    const auto holder =
      static_cast<std::int32_t>(first - holders_.begin()) + next[each.tie]++;
    const auto& gradient = from.work.tensors.at(each.position);
    hand_out(
      {from.serial, from.owner.stage, none, holder,
       gradient.defined() ? gradient.reshape(-1).clone() : at::empty({0}),
       call_, collective_kind::tied_sum, group_.data_rank, group_.copy});
  }
}

void link_collectives::hand_out(const collective_part& result) {
  const auto processes = readers(result.kind, result.piece);
  for (const auto process : processes)
    if (process != process_)
      send_(process, result);
  if (processes.contains(process_))
    put(result);
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
      || (!is_result && owner(reducer(part.kind, part.piece)) != process_))
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
    add(part);
  else
    put(part);
  return finish();
}

/// A part of a piece that is reduced here.
void link_collectives::add(const collective_part& part) {
  auto& parts = calls_[part.call].parts[part.piece];
  parts.resize(owners_.size());
  auto& place = parts[static_cast<std::size_t>(part.member)];
  if (place.defined())
    fail(error_code::mismatch,
         "piece {} of stage {}'s gradients arrived twice from member {}",
         part.piece, part.stage, part.member);
  place = part.values;
  if (!std::ranges::all_of(parts, [](const auto& p) { return p.defined(); }))
    return;
  for (const auto& each : parts)
    if (each.numel() != parts[0].numel()
        || each.scalar_type() != parts[0].scalar_type())
      fail(error_code::mismatch,
           "members have different gradients of stage {}: {} and {}",
           part.stage, describe(parts[0]), describe(each));
  collective_part result{part.serial, part.stage, none,     part.piece,
                         {},          part.call,  part.kind};
  result.values = group_.mean.of(parts);
  parts.clear();
  hand_out(result);
}

void link_collectives::put(const collective_part& result) {
  if (!calls_[result.call].results.emplace(result.piece, result.values).second)
    fail(error_code::mismatch, "piece {} of {} of stage {} arrived twice",
         result.piece, to_text(result.kind), result.stage);
}

bool link_collectives::finish() {
  if (!members_)
    return false;
  auto& state = calls_[call_];
  const auto kind = *state.kind;
  const auto pieces =
    kind == collective_kind::reduce_scatter ? shards_ : count();
  for (std::int32_t p = 0; p < pieces; ++p)
    if (needs(kind, p) && !state.results.contains(p))
      return false;
  for (auto& each : *members_)
    if (kind == collective_kind::tied_sum)
      take_sums(each, state);
    else
      take_results(each, state);
  calls_.erase(call_);
  members_ = nullptr;
  return true;
}

/// Each member adds for itself, to memory of its own.
void link_collectives::take_sums(collective_request& into,
                                 const call_state& from) const {
  for (const auto& each : into.work.tied) {
    const auto& like = into.work.targets.at(each.position);
    tensor_list gradients;
    for (const auto& [holder, values] : from.results) {
      if (holders_.at(static_cast<std::size_t>(holder)).tie != each.tie)
        continue;
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
    into.work.tensors[each.position] = group_.mean.of(gradients);
  }
}

void link_collectives::take_results(collective_request& into,
                                    call_state& from) const {
  auto& work = into.work;
  const auto require = [&](const at::Tensor& values, std::int64_t elements) {
    if (values.numel() != elements)
      fail(error_code::mismatch,
           "another process sent {} elements for {} of stage {}, which has {}",
           values.numel(), to_text(work.kind), into.owner.stage, elements);
  };
  if (work.kind == collective_kind::all_reduce) {
    tensor_list pieces;
    for (const auto& [piece, values] : from.results)
      pieces.push_back(values);
    const auto row = at::cat(pieces);
    std::int64_t elements = 0;
    for (const auto& each : work.tensors)
      elements += each.numel();
    require(row, elements);
    return copy_row(row, work.tensors);
  }
  if (work.kind == collective_kind::reduce_scatter) {
    const auto shard = into.data_rank % shards_;
    // Other members of the shard change theirs.
    const auto values = from.results.at(shard).clone();
    tensor_list parts = pieces_with_presence(work, shard);
    std::int64_t elements = 0;
    for (const auto& each : parts)
      elements += each.numel();
    require(values, elements);
    std::int64_t begin = 0;
    for (auto& each : parts) {
      each = values.narrow(0, begin, each.numel());
      begin += each.numel();
    }
    work.tensors = std::move(parts);
    return;
  }
  for (const auto& [member, values] : from.results) {
    const auto shard = data_rank(member) % shards_;
    if (member % copies_ != into.owner.copy
        || data_rank(member) / shards_ != into.data_rank / shards_)
      continue;
    require_dtype(values, work);
    std::int64_t begin = 0;
    for (std::size_t row = 0; row < work.targets.size(); ++row) {
      const auto& layout = *work.layouts[row];
      const auto elements = layout.content(shard);
      if (begin + elements <= values.numel())
        work.targets[row]
          .narrow(0, layout.begin(shard), elements)
          .copy_(values.narrow(0, begin, elements));
      begin += elements;
    }
    require(values, begin);
  }
  work.tensors.clear();
}

}  // namespace troupe
