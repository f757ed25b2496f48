// How members take the results of collectives over links.
#include <ATen/ops/cat.h>

#include "troupe/actors/reduction/link_collectives.hpp"
#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

std::int64_t elements_of(const tensor_list& tensors) {
  std::int64_t elements = 0;
  for (const auto& each : tensors)
    elements += each.numel();
  return elements;
}

/// A list from another process, which indexes the gradients.
void take_absent(reduction& into, const collective_part& from) {
  if (!from.absent.empty() && from.absent.back() >= into.parameters.size())
    fail(error_code::mismatch,
         "another process lacks the gradient of parameter {} of stage {}, "
         "which has {}",
         from.absent.back(), from.stage, into.parameters.size());
  into.absent = from.absent;
}

void require_elements(const collective_part& part, std::int64_t elements) {
  if (part.values.numel() != elements)
    fail(error_code::mismatch,
         "another process sent {} elements for {} of stage {}, which has {}",
         part.values.numel(), to_text(part.kind), part.stage, elements);
}

void require_dtype(const at::Tensor& values, const all_gather& work) {
  for (const auto& row : work.rows)
    if (values.scalar_type() != row.scalar_type())
      fail(error_code::mismatch, "another process sent {} for {}, which has {}",
           at::toString(values.scalar_type()),
           to_text(collective_kind::all_gather),
           at::toString(row.scalar_type()));
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

void link_collectives::take(const collective_request&, all_reduce& into,
                            const results& from) const {
  tensor_list pieces;
  for (const auto& [piece, part] : from)
    pieces.push_back(part.values);
  auto all = from.begin()->second;
  all.values = at::cat(pieces);
  require_elements(all, elements_of(into.gradients));
  copy_row(all.values, into.gradients);
  take_absent(into, all);
}

/// Other members of the shard change theirs.
void link_collectives::take(const collective_request& member,
                            reduce_scatter& into, const results& from) const {
  const auto shard = member.data_rank % shards_;
  const auto& part = from.at(shard);
  auto pieces = pieces_of(into, shard);
  require_elements(part, elements_of(pieces));
  const auto values = part.values.clone();
  std::int64_t begin = 0;
  for (auto& each : pieces) {
    each = values.narrow(0, begin, each.numel());
    begin += each.numel();
  }
  into.gradients = std::move(pieces);
  take_absent(into, part);
}

void link_collectives::take(const collective_request& member, all_gather& into,
                            const results& from) const {
  for (const auto& [giver, part] : from) {
    const auto shard = data_rank(giver) % shards_;
    if (giver % copies_ != member.owner.copy
        || data_rank(giver) / shards_ != member.data_rank / shards_)
      continue;
    require_dtype(part.values, into);
    std::int64_t begin = 0;
    for (std::size_t row = 0; row < into.rows.size(); ++row) {
      const auto& layout = *into.layouts[row];
      const auto elements = layout.content(shard);
      if (begin + elements <= part.values.numel())
        into.rows[row]
          .narrow(0, layout.begin(shard), elements)
          .copy_(part.values.narrow(0, begin, elements));
      begin += elements;
    }
    require_elements(part, begin);
  }
}

/// Each member adds for itself, to memory of its own.
void link_collectives::take(const collective_request& member, tied_sum& into,
                            const results& from) const {
  for (const auto& each : into.tied) {
    const auto& like = into.parameters.at(each.position);
    tensor_list gradients;
    for (const auto& [holder, part] : from) {
      if (holders_.at(static_cast<std::size_t>(holder)).tie != each.tie)
        continue;
      const auto& values = part.values;
      const bool is_there = values.numel() > 0;
      if (is_there
          && (values.numel() != like.numel() || !values.is_floating_point()))
        fail(error_code::mismatch,
             "a holder of a tied parameter of stage {} sent {}, and has {}; do "
             "all processes have the same model?",
             member.owner.stage, describe(values), describe(like));
      gradients.push_back(is_there ? values.view(like.sizes()).clone()
                                   : at::Tensor{});
    }
    into.gradients[each.position] = group_.mean.of(gradients);
  }
}

}  // namespace troupe
