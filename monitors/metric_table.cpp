#include "troupe/monitors/metric_table.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>

#include "troupe/base/error.hpp"

namespace troupe {

namespace {

double merged(const std::string& name, double before, double value,
              merging how) {
  switch (how) {
    case merging::warn:
      spdlog::warn("metric {} was recorded twice in a step; the first is kept",
                   name);
      return before;
    case merging::oldest:
      return before;
    case merging::latest:
      return value;
    case merging::mean:
      return (before + value) / 2;
    case merging::sum:
      return before + value;
    case merging::max:
      return std::max(before, value);
    case merging::min:
      return std::min(before, value);
  }
  return value;
}

double reduced(const std::map<std::int32_t, double>& by_rank, reduction how) {
  double sum = 0, squares = 0;
  double largest = by_rank.begin()->second;
  for (const auto& [rank, value] : by_rank) {
    sum += value;
    squares += value * value;
    largest = std::max(largest, value);
  }
  switch (how) {
    case reduction::mean:
      return sum / static_cast<double>(by_rank.size());
    case reduction::sum:
      return sum;
    case reduction::max:
      return largest;
    case reduction::l2_norm:
      return std::sqrt(squares);
    case reduction::none:
      break;
  }
  return by_rank.begin()->second;
}

}  // namespace

void metric_table::record(std::int32_t rank, const std::string& name,
                          double value, reduction over_ranks,
                          merging over_records) {
  const auto known = reductions_.try_emplace(name, over_ranks).first->second;
  if (known != over_ranks)
    fail(error_code::mismatch,
         "metric {} was recorded with another reduction before; use one for "
         "each name",
         name);
  const auto [place, is_new] = places_.try_emplace(name, entries_.size());
  if (is_new)
    entries_.push_back({name, over_ranks, {}});
  auto& by_rank = entries_[place->second].by_rank;
  const auto [entry, first] = by_rank.try_emplace(rank, value);
  if (!first)
    entry->second = merged(name, entry->second, value, over_records);
}

std::vector<metric> metric_table::reduce() {
  std::vector<metric> all;
  for (const auto& entry : entries_)
    all.push_back({entry.name, reduced(entry.by_rank, entry.over_ranks)});
  entries_.clear();
  places_.clear();
  return all;
}

}  // namespace troupe
