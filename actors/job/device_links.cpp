#include "troupe/actors/job/device_links.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "troupe/base/fail.hpp"
#include "troupe/engine/stage/ties.hpp"
#include "troupe/engine/stage/update/gradient_mean.hpp"

namespace troupe {

device_links::device_links(job_layout layout, placement stages,
                           std::vector<stage_edge> edges,
                           const std::vector<std::vector<std::int32_t>>& ties,
                           std::int32_t shards, run_devices devices,
                           gradient_mean mean, double stall_seconds)
  : layout_(layout),
    stages_(std::move(stages)),
    edges_(std::move(edges)),
    tied_(joined(ties)),
    shards_(shards),
    devices_(std::move(devices)),
    mean_(mean),
    stall_seconds_(stall_seconds > 0 ? stall_seconds : 1e9) {
  for (const auto& each : ties)
    if (joined({each}) != tied_)
      fail(error_code::invalid_argument,
           "parameters are tied between stages {}, and others between stages "
           "{}; from device to device of several processes all have to be of "
           "the same stages",
           fmt::join(joined({each}), " and "), fmt::join(tied_, " and "));
}

bool device_links::reduces(std::int32_t stage) const {
  return spans_processes(members_of({.sender = stage, .receiver = stage}));
}

rank_device& device_links::device_of(const member& one) const {
  return *devices_.of(one.data_rank, one.stage);
}

device_links::link& device_links::at(const key& link_key) {
  const auto place = links_.find(link_key);
  if (place == links_.end())
    fail(error_code::internal, "there is no link from stage {} to stage {}",
         link_key.sender, link_key.receiver);
  return *place->second;
}

namespace {

at::Tensor part_of(const at::Tensor& row, const shard_layout& layout,
                   std::int32_t shard) {
  return row.narrow(0, layout.begin(shard), layout.length(shard));
}

/// NCCL's reduce-scatter and all-gather need equal shards. Unequal ones take a
/// reduce to, or a broadcast from, each owner, in one group. `own`: this
/// member's shard.
std::vector<transfer> calls_by_owner(transfer_kind kind,
                                     const shard_layout& layout,
                                     const at::Tensor& row,
                                     const at::Tensor& own, std::int32_t shard,
                                     const std::string& op) {
  std::vector<transfer> calls;
  for (std::int32_t owner = 0; owner < layout.shards(); ++owner) {
    const auto part = part_of(row, layout, owner);
    const auto at_owner = owner == shard ? own : at::Tensor{};
    const bool reduces = kind == transfer_kind::reduce;
    if (part.numel() > 0)
      calls.push_back({.kind = kind,
                       .input = reduces ? part : at_owner,
                       .output = reduces ? at_owner : part,
                       .peer = owner,
                       .name = op});
  }
  return calls;
}

}  // namespace

void device_links::enqueue(link& on, std::span<const transfer> together) {
  if (together.empty())
    return;
  const std::scoped_lock lock(on.mutex);
  if (ended_)
    fail(error_code::transport, "{}: the run has ended", on.name);
  on.calls->enqueue(together, *on.stream);
  on.watch.note(describe(together.front()), on.stream->record(),
                std::chrono::steady_clock::now());
}

void device_links::send(const envelope& header, const tensor_list& tensors,
                        const event_handle& ready, const std::string& op) {
  const at::NoGradGuard no_grad;
  auto& on =
    at({header.data_rank, header.copy, header.from_stage, header.to_stage});
  take_over(*on.stream, tensors, ready);
  const auto scope = on.stream->enter();
  for (const auto& tensor : tensors)
    if (tensor.defined() && tensor.numel() > 0)
      enqueue(on, {.input = tensor.contiguous(), .peer = 1, .name = op});
  auto& device =
    device_of({header.data_rank, {header.from_stage, header.copy}});
  if (!device.overlaps_transfers())
    device.compute().wait_for(*on.stream->record());
}

tensor_list device_links::receive(const envelope& announced,
                                  const std::string& op, event_handle& ready) {
  const at::NoGradGuard no_grad;
  auto& device =
    device_of({announced.data_rank, {announced.to_stage, announced.copy}});
  auto& on = at({announced.data_rank, announced.copy, announced.from_stage,
                 announced.to_stage});
  const auto scope = on.stream->enter();
  tensor_list tensors;
  for (const auto& [dtype, sizes] : announced.tensors) {
    if (dtype == at::ScalarType::Undefined) {
      tensors.emplace_back();
      continue;
    }
    tensors.push_back(at::empty(
      sizes, at::TensorOptions().dtype(dtype).device(device.device())));
    if (tensors.back().numel() > 0)
      enqueue(on, {.kind = transfer_kind::receive,
                   .output = tensors.back(),
                   .peer = 0,
                   .name = op});
  }
  ready = on.stream->record();
  return tensors;
}

device_stream& device_links::reduction_stream(std::int32_t stage) {
  return *at({.sender = stage, .receiver = stage}).stream;
}

void device_links::all_reduce(std::int32_t stage, tensor_list& gradients) {
  auto& on = at({.sender = stage, .receiver = stage});
  for (auto& each : gradients) {
    each = mean_.addend(each);
    add_up(on, each, fmt::format("{}REDUCE_GRAD", stage));
    each = mean_.divided(each);
  }
}

at::Tensor device_links::reduce_scatter(std::int32_t stage,
                                        std::int32_t data_rank,
                                        const at::Tensor& row,
                                        const shard_layout& layout) {
  auto& on = at({.sender = stage, .receiver = stage});
  const auto shard = data_rank % shards_;
  auto values = mean_.addend(row);
  const auto op = fmt::format("{}REDUCE_GRAD", stage);
  if (values.numel() == 0)
    return values;
  if (!shards_are_groups()) {
    add_up(on, values, op);
    return mean_.divided(part_of(values, layout, shard));
  }
  const auto own = at::empty({layout.length(shard)}, values.options());
  if (layout.has_equal_shards())
    enqueue(on, {.kind = transfer_kind::reduce_scatter,
                 .input = values,
                 .output = own,
                 .name = op});
  else
    enqueue(on, calls_by_owner(transfer_kind::reduce, layout, values, own,
                               shard, op));
  return mean_.divided(own);
}

device_links::key device_links::gather_key(std::int32_t stage,
                                           std::int32_t data_rank,
                                           std::int8_t copy) const {
  if (shards_are_groups())
    return {.sender = stage, .receiver = stage};
  return {data_rank / shards_ * shards_, copy, stage, stage, true};
}

device_stream& device_links::gather_stream(std::int32_t stage,
                                           std::int32_t data_rank,
                                           std::int8_t copy) {
  return *at(gather_key(stage, data_rank, copy)).stream;
}

void device_links::all_gather(std::int32_t stage, std::int32_t data_rank,
                              std::int8_t copy, const at::Tensor& own,
                              const at::Tensor& into,
                              const shard_layout& layout) {
  auto& on = at(gather_key(stage, data_rank, copy));
  const auto op = fmt::format("{}UNSHARD", stage);
  if (!layout.has_equal_shards())
    enqueue(on, calls_by_owner(transfer_kind::broadcast, layout, into, own,
                               data_rank % shards_, op));
  else if (own.numel() > 0)
    enqueue(on, {.kind = transfer_kind::all_gather,
                 .input = own,
                 .output = into,
                 .name = op});
}

bool device_links::sums_tied(std::int32_t data_rank, std::int8_t copy) const {
  return !tied_.empty()
         && spans_processes(members_of(tied_key(data_rank, copy)));
}

device_stream& device_links::tied_stream(std::int32_t data_rank,
                                         std::int8_t copy) {
  return *at(tied_key(data_rank, copy)).stream;
}

void device_links::sum_tied(std::int32_t data_rank, std::int8_t copy,
                            tensor_list& gradients) {
  const auto group = tied_key(data_rank, copy);
  auto& on = at(group);
  const auto holders = std::ssize(members_of(group));
  for (auto& each : gradients) {
    const auto own = gradient_mean(1).addend(each).reshape(-1).contiguous();
    const auto all = at::empty({holders * own.numel()}, own.options());
    if (own.numel() > 0)
      enqueue(on, {.kind = transfer_kind::all_gather,
                   .input = own,
                   .output = all,
                   .name = "SUM_TIED"});
    const auto rows = all.view({holders, own.numel()});
    auto sum = rows[0].clone();  // `all` is freed
    for (std::int64_t i = 1; i < holders; ++i)
      sum.add_(rows[i]);
    each = sum.view(each.sizes());
  }
}

void device_links::add_up(link& on, at::Tensor& values, const std::string& op) {
  values = values.contiguous();
  if (values.numel() > 0)
    enqueue(on, {.kind = transfer_kind::all_reduce,
                 .input = values,
                 .output = values,
                 .name = op});
}

void device_links::abort() noexcept {
  constexpr std::chrono::milliseconds patience{500};
  if (ended_.exchange(true))
    return;
  const std::scoped_lock making(opening_);
  for (auto& [link_key, each] : links_) {
    // Unblocks threads that are stuck in a call.
    const std::unique_lock lock(each->mutex, patience);
    each->calls->abort();
  }
}

std::vector<std::string> device_links::stuck() {
  std::vector<std::string> all;
  for (auto& [link_key, each] : links_) {
    try {
      if (const auto call = each->watch.look(std::chrono::steady_clock::now()))
        all.push_back(describe(each->name, *call));
    } catch (const error& reason) {
      all.push_back(fmt::format("{}: {}", each->name, reason.what()));
    }
  }
  return all;
}

}  // namespace troupe
