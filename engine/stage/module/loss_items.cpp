#include "troupe/engine/stage/module/loss_items.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>

#include <cmath>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/stage/module/slices.hpp"

namespace troupe {

item_counter item_counter_of(const model& layers, const numerics& how) {
  std::vector<std::pair<std::string, loss_function::counts_function>> all;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const bool is_last = i + 1 == layers.size();
    const auto& loss = is_last && !layers[i].loss ? how.loss : layers[i].loss;
    if (loss && loss.counts())
      all.emplace_back(is_last ? "" : layers[i].name, loss.counts());
  }
  if (all.empty())
    return nullptr;
  return [all = std::move(all)](const microbatch_data& data) {
    item_counts items;
    for (const auto& [layer, counts] : all)
      for (const auto& [loss, count] : counts(data))
        items.emplace(dotted_name(layer, loss), count);
    return items;
  };
}

void refuse_uneven_counts(const std::string& loss, double one, double other) {
  fail(error_code::op_failed,
       "the loss '{}' is the mean of {} items of one microbatch, and of {} of "
       "another; so that each item has the same weight, give the loss function "
       "`counts`, which tell how many before they are computed (a source whose "
       "microbatches count equally must do so), or weigh microbatches equally "
       "(loss_weighting::microbatches)",
       printable(loss), one, other);
}

void add(item_counts& sum, const item_counts& counts) {
  for (const auto& [loss, count] : counts) {
    if (!(count >= 0) || std::isinf(count))
      fail(error_code::op_failed,
           "the loss '{}' counts {} items of a microbatch; return 0 or more",
           loss, count);
    sum[loss] += count;
  }
}

microbatch_data with_items(microbatch_data data, const item_counter& counter,
                           const item_counts& own, const update_items& update) {
  std::vector<item_counts> slice_counts;
  if (update.slices == 1)
    slice_counts.push_back(own);
  else
    for (std::int32_t s = 0; s < update.slices; ++s)
      slice_counts.push_back(counter(slice_of(data, s, update.slices)));
  for (const auto& [loss, count] : own) {
    const auto all = update.counts.at(loss);
    auto divisors = at::empty({all > 0 ? update.slices : 0}, at::kDouble);
    auto* next = divisors.mutable_data_ptr<double>();
    if (all > 0)
      for (const auto& counts : slice_counts) {
        const auto entry = counts.find(loss);
        *next++ =
          all / update.replicas / (entry == counts.end() ? 0 : entry->second);
      }
    data.items[loss] = {count, std::move(divisors)};
  }
  return data;
}

at::Tensor seed_of(const loss_term& term, const microbatch_data& data,
                   std::int32_t slice, const loss_seeds& seeds) {
  const auto value = term.value.detach();
  const auto items = data.items.find(term.name);
  at::Tensor seed;
  const auto divisors =
    items == data.items.end() ? at::Tensor{} : items->second.divisors;
  if (divisors.defined() && divisors.numel() == 0)
    return seed;
  if (!divisors.defined() || seeds.all_equal)
    seed = at::full_like(value, seeds.equal);
  else if (divisors.is_cpu())
    seed = at::full_like(
      value, seeds.scale / divisors.const_data_ptr<double>()[slice]);
  else  // in a recorded step, whose divisors change
    seed = at::full_like(value, seeds.scale)
           / divisors[slice].to(value.scalar_type());
  return term.weight == 1 ? seed : seed * term.weight;
}

}  // namespace troupe
