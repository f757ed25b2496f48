#include "troupe/actors/step/shared_reducer_core.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

/// All gradients in a row, zeros where there is none, and after them for each
/// parameter 1 if it has one, else 0: so that the mean tells whether any
/// replica has.
at::Tensor in_a_row(const tensor_list& parameters, std::int32_t stage) {
  tensor_list flat, known;
  for (const auto& parameter : parameters) {
    const auto& gradient = parameter.grad();
    flat.push_back(gradient.defined() ? gradient.reshape(-1)
                                      : at::zeros_like(parameter).reshape(-1));
    known.push_back(
      at::full({1}, gradient.defined() ? 1 : 0, flat.front().options()));
  }
  const auto same_dtype = [&](const at::Tensor& gradient) {
    return gradient.scalar_type() == flat[0].scalar_type();
  };
  if (!std::ranges::all_of(flat, same_dtype))
    fail(error_code::mismatch,
         "the gradients of stage {} have several dtypes, which replicas of "
         "several processes can't average yet",
         stage);
  flat.insert(flat.end(), known.begin(), known.end());
  return flat.empty() ? at::Tensor{} : at::cat(flat);
}

void spread(const at::Tensor& row, const tensor_list& parameters) {
  const auto count = static_cast<std::int64_t>(parameters.size());
  const auto known = row.narrow(0, row.numel() - count, count).to(at::kDouble);
  const auto* is_known = known.const_data_ptr<double>();
  std::int64_t at = 0;
  for (auto parameter : parameters) {
    const auto values =
      row.narrow(0, at, parameter.numel()).view(parameter.sizes());
    at += parameter.numel();
    if (parameter.grad().defined())
      parameter.mutable_grad().copy_(values);
    else if (*is_known > 0)
      parameter.mutable_grad() = values.clone();
    ++is_known;
  }
}

}  // namespace

shared_reducer_core::shared_reducer_core(std::vector<std::int32_t> owners,
                                         std::int32_t here)
  : owners_(std::move(owners)),
    here_(here),
    replicas_here_(std::ranges::count(owners_, here)) {
  for (const auto each : owners_)
    if (each != here_ && std::ranges::count(others_, each) == 0)
      others_.push_back(each);
}

shared_reducer_core::answer shared_reducer_core::on(reduce_gradients request) {
  const at::NoGradGuard no_grad;
  const auto replicas = static_cast<std::int64_t>(owners_.size());
  const auto row = in_a_row(request.parameters, request.stage);
  answer made;
  waiting_[request.data_rank] = std::move(request.parameters);
  const auto length = row.defined() ? row.numel() : 0;
  for (std::int32_t p = 0; p < replicas; ++p) {
    const auto begin = length * p / replicas;
    const auto end = length * (p + 1) / replicas;
    reduce_part part{
      request.serial, request.stage, request.data_rank, p,
      row.defined() ? row.narrow(0, begin, end - begin) : at::empty({0})};
    if (owner(p) == here_)
      add(part, made);
    else
      made.send.emplace_back(owner(p), std::move(part));
  }
  finish(made);
  return made;
}

shared_reducer_core::answer shared_reducer_core::on(reduce_part part) {
  const at::NoGradGuard no_grad;
  const auto replicas = static_cast<std::int32_t>(owners_.size());
  if (part.piece < 0 || part.piece >= replicas || part.data_rank < none
      || part.data_rank >= replicas
      || (part.data_rank != none && owner(part.piece) != here_))
    fail(error_code::mismatch,
         "a part of stage {}'s gradients (piece {} of replica {}) belongs "
         "elsewhere",
         part.stage, part.piece, part.data_rank);
  answer made;
  if (part.data_rank != none)
    add(part, made);
  else if (!averages_.emplace(part.piece, std::move(part.values)).second)
    fail(error_code::mismatch, "piece {} of stage {}'s gradients came twice",
         part.piece, part.stage);
  finish(made);
  return made;
}

/// A part of a piece that is averaged here.
void shared_reducer_core::add(const reduce_part& part, answer& to) {
  auto& parts = parts_[part.piece];
  parts.resize(owners_.size());
  auto& place = parts[static_cast<std::size_t>(part.data_rank)];
  if (place.defined())
    fail(error_code::mismatch,
         "piece {} of stage {}'s gradients came twice from replica {}",
         part.piece, part.stage, part.data_rank);
  place = part.values;
  if (!std::ranges::all_of(parts, [](const auto& p) { return p.defined(); }))
    return;
  for (const auto& each : parts)
    if (each.numel() != parts[0].numel()
        || each.scalar_type() != parts[0].scalar_type())
      fail(error_code::mismatch,
           "replicas have different gradients of stage {}: {} and {}",
           part.stage, describe(parts[0]), describe(each));
  auto sum = parts[0].clone();
  for (std::size_t r = 1; r < parts.size(); ++r)
    sum.add_(parts[r]);
  sum.div_(static_cast<double>(parts.size()));
  parts_.erase(part.piece);
  for (const auto process : others_)
    to.send.emplace_back(
      process, reduce_part{part.serial, part.stage, none, part.piece, sum});
  averages_[part.piece] = sum;
}

void shared_reducer_core::finish(answer& to) {
  if (averages_.size() < owners_.size()
      || static_cast<std::int64_t>(waiting_.size()) < replicas_here_)
    return;
  tensor_list pieces;
  for (auto& [piece, values] : averages_)
    pieces.push_back(std::move(values));
  const auto row = at::cat(pieces);
  for (const auto& [data_rank, parameters] : waiting_)
    spread(row, parameters);
  averages_.clear();
  waiting_.clear();
  to.done = true;
}

}  // namespace troupe
