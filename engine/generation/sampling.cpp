#include "troupe/engine/generation/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/data/row_order.hpp"

namespace troupe {

namespace {

/// In [0, 1).
double level_of(const sampling_options& options, std::int64_t turn) {
  const auto stream = options.stream.value_or(0);
  const auto seed =
    stream == 0 ? options.seed : mix_bits(options.seed ^ mix_bits(stream));
  const auto bits =
    mix_bits(seed * 1'000'003 + static_cast<std::uint64_t>(turn));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

/// Not normalised; the most likely token has 1.
std::vector<double> weights_of(const std::vector<double>& logits,
                               double temperature) {
  const auto most = *std::ranges::max_element(logits);
  std::vector<double> weights;
  for (const auto logit : logits)
    weights.push_back(std::exp((logit - most) / temperature));
  return weights;
}

/// Leaves the most likely tokens, by their weights.
void leave_out_tail(std::vector<double>& weights,
                    const sampling_options& options) {
  const auto all = std::ssize(weights);
  auto kept = options.top_k == 0 ? all : std::min(options.top_k, all);
  if (kept == all && options.top_p >= 1)
    return;
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](std::size_t id) { return weights[id]; });
  double total = 0;
  for (std::int64_t i = 0; i < kept; ++i)
    total += weights[order[static_cast<std::size_t>(i)]];
  double sum = 0;
  for (std::int64_t i = 0; i < kept; ++i) {
    sum += weights[order[static_cast<std::size_t>(i)]];
    if (sum >= options.top_p * total)
      kept = i + 1;
  }
  for (auto i = kept; i < all; ++i)
    weights[order[static_cast<std::size_t>(i)]] = 0;
}

}  // namespace

void require_legal(const sampling_options& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    fail(error_code::invalid_argument,
         "a temperature of {}: give 0 (always the most likely token) or more",
         options.temperature);
  if (options.top_k < 0)
    fail(error_code::invalid_argument,
         "a top-k of {}: give 0 (all tokens) or more", options.top_k);
  if (!(options.top_p > 0 && options.top_p <= 1))
    fail(error_code::invalid_argument,
         "a top-p of {}: give a number above 0, up to 1 (all tokens)",
         options.top_p);
}

std::int64_t next_token(const at::Tensor& logits,
                        const sampling_options& options, std::int64_t turn) {
  const auto row = logits.to(at::kDouble).contiguous();
  const auto* first = row.const_data_ptr<double>();
  const std::vector<double> values(first, first + row.numel());
  if (!std::isfinite(*std::ranges::max_element(values))
      || std::ranges::any_of(values, [](double v) { return std::isnan(v); }))
    fail(error_code::invalid_data,
         "the model's logits are not finite; check its parameters");
  if (options.temperature == 0)
    return std::ranges::max_element(values) - values.begin();
  auto weights = weights_of(values, options.temperature);
  leave_out_tail(weights, options);
  const auto level = level_of(options, turn)
                     * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  std::int64_t last = 0;
  for (std::size_t id = 0; id < weights.size(); ++id) {
    if (weights[id] == 0)
      continue;
    sum += weights[id];
    last = static_cast<std::int64_t>(id);
    if (level < sum)
      break;
  }
  return last;
}

}  // namespace troupe
