#include "troupe/engine/transport/process_group.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/maximum.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/wire.hpp"

namespace troupe {

std::string to_text(const collective_call& call) {
  static constexpr std::array hows{"sum", "mean", "max"};
  const auto form = fmt::format("{}[{}]", c10::toString(call.given.dtype),
                                fmt::join(call.given.sizes, ", "));
  const auto how = hows.at(static_cast<std::size_t>(call.how));
  const auto name = [&]() -> std::string {
    switch (call.kind) {
      case transfer_kind::all_gather:
        return "all_gather of " + form;
      case transfer_kind::reduce_scatter:
        return fmt::format("reduce_scatter ({}) of {}", how, form);
      case transfer_kind::all_reduce:
        return fmt::format("all_reduce ({}) of {}", how, form);
      default:
        return fmt::format("broadcast of rank {}", call.root);
    }
  }();
  return fmt::format("{} among processes {} as call {}", name,
                     fmt::join(call.members, ", "), call.serial);
}

namespace {

void join(at::Tensor& result, const at::Tensor& other, reduce_kind how) {
  if (how == reduce_kind::max)
    at::maximum_out(result, result, other);
  else
    result.add_(other);
}

}  // namespace

process_group::process_group(mesh& job, std::vector<std::int32_t> members)
  : job_(job), members_(std::move(members)) {
  const auto own = std::ranges::find(members_, job_.place().process);
  const bool ascending =
    std::ranges::adjacent_find(members_, std::greater_equal<>())
    == members_.end();
  if (own == members_.end() || !ascending || members_.front() < 0
      || members_.back() >= job_.place().processes)
    fail(error_code::invalid_argument,
         "a group of processes {} in process {} of {}: give process numbers in "
         "ascending order, including this one",
         fmt::join(members_, ", "), job_.place().process,
         job_.place().processes);
  rank_ = static_cast<std::int32_t>(own - members_.begin());
  call_.members = members_;
}

at::Tensor process_group::all_gather(const at::Tensor& mine) {
  const at::NoGradGuard no_grad;
  begin(transfer_kind::all_gather, mine);
  if (mine.dim() == 0)
    fail(error_code::invalid_argument,
         "all_gather of a scalar: give it a dimension, for example with "
         "reshape({{1}})");
  // Copied, as the sent memory may be in use later.
  return gathered(mine.clone(),
                  std::vector(static_cast<std::size_t>(size()), mine));
}

at::Tensor process_group::reduce_scatter(const at::Tensor& mine,
                                         reduce_kind how) {
  const at::NoGradGuard no_grad;
  begin(transfer_kind::reduce_scatter, mine, how);
  if (mine.dim() == 0 || mine.size(0) % size() != 0)
    fail(error_code::invalid_argument,
         "reduce_scatter of {} over {} processes: its first dimension must be "
         "a multiple of that",
         describe(mine), size());
  return reduce(mine.clone().chunk(size()));
}

at::Tensor process_group::all_reduce(const at::Tensor& mine, reduce_kind how) {
  const at::NoGradGuard no_grad;
  begin(transfer_kind::all_reduce, mine, how);
  const auto row = mine.clone().reshape(-1);
  std::vector<at::Tensor> pieces;
  for (std::int64_t r = 0; r < size(); ++r) {
    const auto first = row.numel() * r / size();
    pieces.push_back(
      row.narrow(0, first, row.numel() * (r + 1) / size() - first));
  }
  return gathered(reduce(pieces), pieces).view(mine.sizes());
}

at::Tensor process_group::broadcast(const at::Tensor& given,
                                    std::int32_t root) {
  const at::NoGradGuard no_grad;
  if (root < 0 || root >= size())
    fail(error_code::invalid_argument,
         "broadcast of rank {} in a group of {} processes", root, size());
  begin(transfer_kind::broadcast, rank_ == root ? given : at::Tensor{},
        reduce_kind::sum, root);
  if (rank_ != root)
    return take(root, {});
  const auto kept = given.clone();
  for (std::int32_t r = 0; r < size(); ++r)
    send(r, kept);
  return given.clone();
}

at::Tensor process_group::gathered(const at::Tensor& own,
                                   const std::vector<at::Tensor>& like) {
  std::vector<at::Tensor> all;
  for (std::int32_t r = 0; r < size(); ++r)
    send(r, own);
  for (std::int32_t r = 0; r < size(); ++r)
    all.push_back(r == rank_ ? own
                             : take(r, like[static_cast<std::size_t>(r)]));
  return at::cat(all);
}

void process_group::begin(transfer_kind kind, const at::Tensor& given,
                          reduce_kind how, std::int32_t root) {
  if (given.defined() && !given.device().is_cpu())
    fail(error_code::invalid_argument,
         "a collective of {} over links: move it to the CPU, or use a "
         "communicator of its device",
         describe(given));
  if (!given.defined() && (kind != transfer_kind::broadcast || root == rank_))
    fail(error_code::invalid_argument,
         "a collective of a tensor that is not defined");
  if (how == reduce_kind::mean && !given.is_floating_point())
    fail(error_code::invalid_argument,
         "the mean of {}: give floating-point values", describe(given));
  ++call_.serial;
  call_.kind = kind;
  call_.how = how;
  call_.root = root;
  call_.given = {};
  if (given.defined() && kind != transfer_kind::broadcast)
    call_.given = {given.scalar_type(), given.sizes().vec()};
}

void process_group::send(std::int32_t receiver, const at::Tensor& piece) {
  if (receiver != rank_)
    job_.give(
      members_[static_cast<std::size_t>(receiver)],
      {frame_type::collective, to_wire(call_), {piece.detach().contiguous()}});
}

at::Tensor process_group::take(std::int32_t sender, const at::Tensor& like) {
  const auto process = members_[static_cast<std::size_t>(sender)];
  auto came = job_.take_given(process);
  const auto theirs = from_wire<collective_call>(came.head);
  if (theirs != call_)
    fail(error_code::mismatch,
         "process {} calls {}; this one, process {}, {}: all members make the "
         "same calls in the same order",
         process, to_text(theirs), job_.place().process, to_text(call_));
  if (came.tensors.size() != 1 || !came.tensors[0].defined()
      || (like.defined()
          && (came.tensors[0].sizes() != like.sizes()
              || came.tensors[0].scalar_type() != like.scalar_type())))
    fail(error_code::transport,
         "process {} sent {} for {}; run the same program", process,
         describe(came.tensors), to_text(call_));
  return came.tensors[0];
}

at::Tensor process_group::reduce(const std::vector<at::Tensor>& pieces) {
  for (std::int32_t r = 0; r < size(); ++r)
    send(r, pieces[static_cast<std::size_t>(r)]);
  const auto& own = pieces[static_cast<std::size_t>(rank_)];
  at::Tensor result;
  for (std::int32_t r = 0; r < size(); ++r) {
    const auto next = r == rank_ ? own : take(r, own);
    if (r == 0)
      result = next.clone();
    else
      join(result, next, call_.how);
  }
  if (call_.how == reduce_kind::mean)
    result.div_(size());
  return result;
}

}  // namespace troupe
