#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// How a metric's values of several ranks become one. A rank that lacks it
/// counts 0 for sum, l2_norm and mean, and minus infinity for max; the mean
/// divides by the ranks that have it. `none`: the lowest rank's value.
enum class reduction : std::uint8_t { none, mean, sum, max, l2_norm };

/// The rule for a name that one rank records twice in a step. `warn` keeps
/// the first and says so; `mean` is (old + new) / 2.
enum class merging : std::uint8_t { warn, latest, oldest, mean, sum, max, min };

/// Metrics of one step as ranks record them (OLMo-core's reduce types and
/// merge strategies). Names come out in the order in which they were first
/// recorded. One thread at a time.
class metric_table {
 public:
  /// Throws `mismatch` if the name was recorded with another reduction.
  void record(std::int32_t rank, const std::string& name, double value,
              reduction over_ranks, merging over_records);
  /// One value a name; the table is empty then, but remembers reductions.
  std::vector<metric> reduce();

 private:
  struct entry {
    std::string name;
    reduction over_ranks;
    std::map<std::int32_t, double> by_rank;
  };
  std::vector<entry> entries_;
  std::map<std::string, std::size_t> places_;
  std::map<std::string, reduction> reductions_;
};

}  // namespace troupe
