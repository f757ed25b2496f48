#include "troupe/engine/events/row_sample.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "troupe/engine/events/moments.hpp"

namespace troupe {
namespace {

constexpr std::int64_t most_values_read_whole = 16384;
constexpr std::int64_t fewest_rows = 32;
constexpr std::int64_t fewest_rows_of_stratum = 2;

std::int64_t rows_to_choose(double share, std::int64_t rows,
                            std::int64_t strata) {
  const auto wanted = std::ceil(share * static_cast<double>(rows));
  return std::max({static_cast<std::int64_t>(wanted), fewest_rows_of_stratum,
                   (fewest_rows - 1) / strata + 1});
}

/// A random number from 0 on below a limit, from 53 random bits.
std::int64_t below(std::int64_t limit, std::uint32_t high, std::uint32_t low) {
  const auto bits = std::uint64_t{high} << 21 | low >> 11;
  return static_cast<std::int64_t>(static_cast<double>(bits) * 0x1p-53
                                   * static_cast<double>(limit));
}

/// The mean of a number over a stratum of so many rows, from that of some.
template <class Number>
estimate mean_of(std::span<const tensor_statistics> drawn, std::int64_t rows,
                 Number number) {
  const auto count = static_cast<double>(drawn.size());
  double sum = 0, squares = 0;
  for (const auto& row : drawn)
    sum += number(row);
  const auto mean = sum / count;
  for (const auto& row : drawn)
    squares += (number(row) - mean) * (number(row) - mean);
  const auto variance =
    squares / (count - 1) * (1 / count - 1 / static_cast<double>(rows));
  return {mean, variance, variance / std::sqrt(count + 1)};
}

/// Adds the mean and the variance of an instance, from rows of it. Rows that
/// lack values, as they are not finite, weigh less: estimates of ratios.
void add_instance(std::span<const tensor_statistics> drawn,
                  const row_plan& plan, row_estimates& to) {
  moments all;
  for (const auto& row : drawn)
    all.add({static_cast<double>(row.finite()), row.mean, row.squares});
  if (all.count == 0)
    return;
  const auto finite = all.count / static_cast<double>(drawn.size());
  const auto weigh = 1 / finite;
  const auto square = all.squares / all.count;
  const auto mean =
    mean_of(drawn, plan.rows, [&](const tensor_statistics& row) {
      const auto weight = static_cast<double>(row.finite()) * weigh;
      return all.mean + weight * (row.mean - all.mean);
    });
  auto variance = mean_of(drawn, plan.rows, [&](const tensor_statistics& row) {
    const auto count = static_cast<double>(row.finite());
    const auto distance = row.mean - all.mean;
    return square
           + (row.squares + count * (distance * distance - square)) * weigh;
  });
  variance.value += mean.variance;
  const auto values = finite * static_cast<double>(plan.rows);
  to.mean += mean;
  if (values > 1)
    to.variance += variance * (values / (values - 1));
}

}  // namespace

std::optional<row_plan> planned_rows(const at::Tensor& tensor, bool instances,
                                     double share) {
  const auto count = tensor.numel();
  if (count <= most_values_read_whole || tensor.dim() < 2
      || !at::isFloatingType(tensor.scalar_type()) || tensor.is_neg()
      || !(instances ? lies_by_instances(tensor) : tensor.is_contiguous()))
    return {};
  const auto width = tensor.size(-1);
  const auto strata = instances ? tensor.size(0) : 1;
  row_plan plan{strata, count / strata / width, 0, width};
  plan.chosen = rows_to_choose(share, plan.rows, strata);
  if (instances) {
    row_plan whole{1, strata, 0, count / strata, true};
    whole.chosen = rows_to_choose(share, strata, 1);
    if (whole.drawn() * whole.width < plan.drawn() * plan.width)
      plan = whole;
  }
  return 2 * plan.chosen <= plan.rows ? std::optional(plan) : std::nullopt;
}

std::vector<std::int64_t> drawn_rows(const row_plan& plan, philox_key key) {
  std::vector<std::int64_t> drawn;
  drawn.reserve(static_cast<std::size_t>(plan.drawn()));
  std::vector<bool> taken(static_cast<std::size_t>(plan.strata * plan.rows));
  for (std::int64_t stratum = 0; stratum < plan.strata; ++stratum) {
    const philox_stream numbers{key, static_cast<std::uint32_t>(stratum)};
    const auto first = stratum * plan.rows;
    philox_block block;
    // Floyd's algorithm: each set is as probable as any other.
    for (std::int64_t i = 0; i < plan.chosen; ++i) {
      if (i % 2 == 0)
        block = numbers.block(static_cast<std::uint64_t>(i / 2));
      const auto last = plan.rows - plan.chosen + i;
      auto row = first
                 + below(last + 1, i % 2 == 0 ? block.x : block.z,
                         i % 2 == 0 ? block.y : block.w);
      if (taken[static_cast<std::size_t>(row)])
        row = first + last;
      taken[static_cast<std::size_t>(row)] = true;
      drawn.push_back(row);
    }
    std::sort(drawn.end() - plan.chosen, drawn.end());
  }
  return drawn;
}

row_estimates estimated(const row_plan& plan,
                        const std::vector<tensor_statistics>& drawn) {
  row_estimates result;
  result.count = plan.strata * plan.rows * plan.width;
  result.read = plan.drawn() * plan.width;
  const auto rows = static_cast<double>(plan.rows);
  for (std::int64_t stratum = 0; stratum < plan.strata; ++stratum) {
    const auto part =
      std::span(drawn).subspan(static_cast<std::size_t>(stratum * plan.chosen),
                               static_cast<std::size_t>(plan.chosen));
    for (const auto& row : part)
      result.max_abs = std::max(result.max_abs, row.max_abs);
    const auto total = [&](auto number) {
      return mean_of(part, plan.rows, number) * rows;
    };
    result.nans += total([](const auto& row) { return double(row.nans); });
    result.infs += total([](const auto& row) { return double(row.infs); });
    if (!plan.rows_are_instances) {
      add_instance(part, plan, result);
      continue;
    }
    result.mean += total([](const auto& row) { return row.mean; });
    result.variance += total([](const auto& row) { return row.variance(); });
  }
  return result;
}

}  // namespace troupe
