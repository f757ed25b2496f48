#include "troupe/engine/events/shard_joiner.hpp"

#include <ATen/ops/cat.h>
#include <c10/util/accumulate.h>

#include <string>
#include <utility>
#include <vector>

namespace troupe {

namespace {

/// The records of one parameter, or of its gradient, by shard.
using pieces = std::vector<tensor_record>;

at::Tensor whole_tensor(const pieces& all) {
  tensor_list flat;
  std::int64_t elements = 0;
  for (const auto& piece : all) {
    if (!piece.tensor.defined())
      return {};
    flat.push_back(piece.tensor.reshape(-1).to(all[0].tensor.device()));
    elements += flat.back().numel();
  }
  const auto& shape = all[0].owner->shape;
  return elements == c10::multiply_integers(shape) ? at::cat(flat).view(shape)
                                                   : at::Tensor{};
}

tensor_record joined(pieces all) {
  const auto tensor = whole_tensor(all);
  auto whole = all[0];
  for (std::size_t i = 1; i < all.size(); ++i)
    whole.statistics = merge(whole.statistics, all[i].statistics);
  whole.statistics.instances = 0;
  whole.statistics.instance_mean_sum = 0;
  whole.statistics.instance_variance_sum = 0;
  whole.tensor = tensor;
  return whole;
}

}  // namespace

std::optional<tensors_event> shard_joiner::add(tensors_event part) {
  const auto step = part.source.step;
  auto& steps =
    waiting_[{part.source.data_rank - part.shard, part.source.stage}];
  std::erase_if(steps, [&](const auto& each) { return each.first < step - 1; });
  auto& parts = steps[step];
  const auto shards = part.shards;
  parts.insert_or_assign(part.shard, std::move(part));
  if (std::ssize(parts) < shards)
    return std::nullopt;

  auto whole = std::move(parts.begin()->second);
  std::vector<pieces> order;
  std::map<std::pair<tensor_kind, std::string>, std::size_t> index;
  const auto take = [&](std::vector<tensor_record> records) {
    for (auto& each : records) {
      const auto [found, is_new] =
        index.try_emplace({each.kind, each.owner->name}, order.size());
      if (is_new)
        order.emplace_back();
      order[found->second].push_back(std::move(each));
    }
  };
  take(std::exchange(whole.tensors, {}));
  for (auto next = std::next(parts.begin()); next != parts.end(); ++next)
    take(std::move(next->second.tensors));
  for (auto& each : order)
    whole.tensors.push_back(joined(std::move(each)));
  whole.shard = 0;
  whole.shards = 1;
  steps.erase(step);
  return whole;
}

}  // namespace troupe
