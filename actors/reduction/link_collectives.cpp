#include "troupe/actors/reduction/link_collectives.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/stage/mean_gradient.hpp"

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

void copy_row(const at::Tensor& row, const tensor_list& tensors) {
  std::int64_t begin = 0;
  for (const auto& each : tensors) {
    each.copy_(row.narrow(0, begin, each.numel()).view(each.sizes()));
    begin += each.numel();
  }
}

}  // namespace

link_collectives::link_collectives(std::vector<std::int32_t> owners,
                                   std::int32_t replicas, std::int32_t process,
                                   sender send)
  : owners_(std::move(owners)),
    replicas_(replicas),
    process_(process),
    send_(std::move(send)) {
  for (const auto each : owners_)
    if (each != process_ && std::ranges::count(others_, each) == 0)
      others_.push_back(each);
}

bool link_collectives::all_reduce(std::int64_t serial, std::int32_t stage,
                                  std::vector<tensor_list>& members) {
  const auto pieces = static_cast<std::int64_t>(owners_.size());
  auto tensors = members.begin();
  for (std::int32_t member = 0; member < pieces; ++member) {
    if (owner(member) != process_)
      continue;
    const auto row = row_of(*tensors++, stage);
    for (std::int32_t p = 0; p < pieces; ++p) {
      const auto begin = row.numel() * p / pieces;
      const auto end = row.numel() * (p + 1) / pieces;
      reduce_part part{serial, stage, member, p,
                       row.narrow(0, begin, end - begin)};
      if (owner(p) == process_)
        add(part);
      else
        send_(owner(p), std::move(part));
    }
  }
  waiting_ = members;
  return finish();
}

bool link_collectives::on(reduce_part part) {
  const at::NoGradGuard no_grad;
  const auto members = static_cast<std::int32_t>(owners_.size());
  if (part.piece < 0 || part.piece >= members || part.member < none
      || part.member >= members
      || (part.member != none && owner(part.piece) != process_))
    fail(error_code::mismatch,
         "a part of stage {}'s gradients (piece {} of member {}) belongs "
         "elsewhere",
         part.stage, part.piece, part.member);
  if (part.member != none)
    add(part);
  else if (!means_.emplace(part.piece, std::move(part.values)).second)
    fail(error_code::mismatch, "piece {} of stage {}'s gradients came twice",
         part.piece, part.stage);
  return finish();
}

/// A part of a piece that is reduced here.
void link_collectives::add(const reduce_part& part) {
  auto& parts = parts_[part.piece];
  parts.resize(owners_.size());
  auto& place = parts[static_cast<std::size_t>(part.member)];
  if (place.defined())
    fail(error_code::mismatch,
         "piece {} of stage {}'s gradients came twice from member {}",
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
  const auto mean = mean_gradient(parts, replicas_);
  parts_.erase(part.piece);
  for (const auto process : others_)
    send_(process, {part.serial, part.stage, none, part.piece, mean});
  means_[part.piece] = mean;
}

bool link_collectives::finish() {
  if (means_.size() < owners_.size() || waiting_.empty())
    return false;
  tensor_list pieces;
  for (auto& [piece, values] : means_)
    pieces.push_back(std::move(values));
  const auto row = at::cat(pieces);
  for (const auto& tensors : waiting_)
    copy_row(row, tensors);
  means_.clear();
  waiting_.clear();
  return true;
}

}  // namespace troupe
