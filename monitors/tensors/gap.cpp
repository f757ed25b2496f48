#include "troupe/monitors/tensors/gap.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/events/log.hpp"
#include "troupe/monitors/monitor_of.hpp"

namespace troupe {

namespace {

constexpr auto per_instance =
  tensor_kind::activation | tensor_kind::activation_gradient;

/// Where a tensor stands among a step's metrics.
struct place {
  std::int32_t data_rank, stage;
  tensor_kind kind;
  std::string name;
  friend auto operator<=>(const place&, const place&) = default;
};

/// A tensor's statistics, summed over the microbatches of a rank.
struct gathered {
  double max = 0;
  estimate mean, variance, nans, infs;
  tensor_statistics whole;
};

const char* group_of(tensor_kind kind) {
  switch (kind) {
    case tensor_kind::activation:
      return "activations";
    case tensor_kind::activation_gradient:
      return "activation_grads";
    case tensor_kind::parameter:
      return "params";
    default:
      return "grads";
  }
}

/// The first value of a list or tuple counts, as in the original.
bool counts(const tensor_record& record) {
  if (record.index > 0 || record.inner > 0)
    return false;
  if (record.content == tensor_content::other)
    fail(error_code::invalid_argument,
         "module {} returns something that is not a tensor, so gap has nothing "
         "to measure; exclude it with match=",
         record.owner->name);
  const auto values =
    record.sample ? record.sample->count : record.statistics.count;
  if (record.content == tensor_content::nothing || values == 1)
    return false;
  return !has(per_instance, record.kind)
         || (values > 1 && record.dimensions > 1);
}

/// What was read whole, if only for its extremes, is exact.
row_estimates estimates_of(const tensor_record& record) {
  const auto& s = record.statistics;
  if (record.sample && s.count == 0)
    return *record.sample;
  auto result = record.sample.value_or(row_estimates{});
  result.max_abs = s.max_abs;
  result.nans = {static_cast<double>(s.nans)};
  result.infs = {static_cast<double>(s.infs)};
  if (!record.sample) {
    const bool instances = has(per_instance, record.kind);
    result.mean = {instances ? s.instance_mean_sum : s.mean};
    result.variance = {instances ? s.instance_variance_sum : s.variance()};
  }
  return result;
}

/// How a metric's values of several data ranks become one.
enum class reduction : std::uint8_t { mean, sum, max };

/// A metric of one step as data ranks record it.
struct ranks_metric {
  std::string name;
  reduction how;
  bool is_signed;
  std::map<std::int32_t, estimate> by_rank = {};

  estimate reduced() const {
    estimate sum;
    double largest = by_rank.begin()->second.value;
    for (const auto& [rank, each] : by_rank) {
      sum += each;
      largest = std::max(largest, each.value);
    }
    return how == reduction::max   ? estimate{largest}
           : how == reduction::sum ? sum
                                   : sum / static_cast<double>(by_rank.size());
  }
};

class gap_state {
 public:
  gap_state(const gap_options& options, sink_pointer sink)
    : histogram_(options.histogram),
      intervals_(options.sample > 0),
      sink_(std::move(sink)) {}

  void see(const tensors_event& op) {
    const auto& place = op.source;
    if (place.microbatch >= 0 && !op.backward)
      batch_[{place.data_rank, place.stage}] += op.samples;
    for (const auto& record : op.tensors)
      if (counts(record))
        add({place.data_rank, place.stage, record.kind, record.owner->name},
            record);
  }
  void see(const step_event& step) { conclude(step.source); }
  void see(const dropped_event&) { forget(); }
  void see(const epoch_event&) { forget(); }

 private:
  void add(const place& where, const tensor_record& record) {
    const auto found = estimates_of(record);
    const auto [entry, is_new] = sums_.try_emplace(where);
    if (is_new)
      order_.push_back(where);
    auto& sum = entry->second;
    sum.max = std::max(sum.max, found.infs.value > 0
                                  ? std::numeric_limits<double>::infinity()
                                  : found.max_abs);
    sum.mean += found.mean;
    sum.variance += found.variance;
    sum.nans += found.nans;
    sum.infs += found.infs;
    if (histogram_)
      sum.whole =
        is_new ? record.statistics : merge(sum.whole, record.statistics);
  }

  void conclude(const event_source& source) {
    // Microbatches of several stages arrive interleaved; by stage they come
    // out in the same order for every schedule.
    std::ranges::stable_sort(order_, {}, [](const place& position) {
      return std::tuple(position.kind, position.stage, position.data_rank);
    });
    metrics_record record{source};
    for (const auto& where : order_)
      gather(where, record);
    for (const auto& each : metrics_)
      tell(each, record);
    if (!record.values.empty())
      sink_->write(record);
    forget();
  }

  void tell(const ranks_metric& metric, metrics_record& record) const {
    const auto found = metric.reduced();
    record.values.push_back({metric.name, found.value});
    if (!intervals_ || metric.how == reduction::max)
      return;
    const auto [low, high] =
      metric.is_signed ? found.interval() : found.positive_interval();
    record.values.push_back({metric.name + "_low", low});
    record.values.push_back({metric.name + "_high", high});
  }

  void gather(const place& where, metrics_record& record) {
    const auto& sum = sums_.at(where);
    const double batch =
      has(per_instance, where.kind)
        ? static_cast<double>(batch_[{where.data_rank, where.stage}])
        : 1;
    const auto prefix =
      fmt::format("gap/{}/{}", group_of(where.kind), where.name);
    const auto put = [&](const char* what, const estimate& value, reduction how,
                         bool is_signed = false) {
      const auto name = fmt::format("{}/{}", prefix, what);
      const auto [place, is_new] = places_.try_emplace(name, metrics_.size());
      if (is_new)
        metrics_.push_back({name, how, is_signed});
      if (!metrics_[place->second]
             .by_rank.emplace(where.data_rank, value)
             .second)
        log()->warn("metric {} was recorded twice in a step; the first is kept",
                    name);
    };
    put("max", {sum.max}, reduction::max);
    put("mean", sum.mean / batch, reduction::mean, /*is_signed=*/true);
    put("var", sum.variance / batch, reduction::mean);
    if (sum.nans.value > 0)
      put("nans", sum.nans, reduction::sum);
    if (sum.infs.value > 0)
      put("infs", sum.infs, reduction::sum);
    if (histogram_)
      add_histogram(where.kind, {prefix, sum.whole}, record);
  }

  /// Replicas have activations of their own, and the same parameters.
  static void add_histogram(tensor_kind kind, metric_histogram added,
                            metrics_record& record) {
    const auto same =
      std::ranges::find(record.histograms, added.name, &metric_histogram::name);
    if (same == record.histograms.end())
      record.histograms.push_back(std::move(added));
    else if (has(per_instance, kind))
      same->statistics = merge(same->statistics, added.statistics);
  }

  void forget() {
    sums_.clear();
    order_.clear();
    batch_.clear();
    metrics_.clear();
    places_.clear();
  }

  bool histogram_, intervals_;
  required_sink sink_;
  std::map<place, gathered> sums_;
  std::vector<place> order_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> batch_;
  std::vector<ranks_metric> metrics_;  // in the order of the first record
  std::map<std::string, std::size_t> places_;
};

}  // namespace

monitor gap_monitor(const gap_options& options, sink_pointer sink) {
  require_steps("gap: every", options.every);
  if (!(options.sample >= 0 && options.sample <= 1))
    fail(error_code::invalid_argument,
         "gap: sample is {}; use a share of the rows from 0 to 1, such as 0.01",
         options.sample);
  if (options.sample > 0 && options.histogram)
    fail(error_code::invalid_argument,
         "gap: histograms are of all values, and sample={} reads some; leave "
         "one of the two out",
         options.sample);
  auto result =
    monitor_of("gap", std::make_shared<gap_state>(options, std::move(sink)));
  result.wants.warnings = false;
  result.wants.tensors =
    per_instance | tensor_kind::parameter | tensor_kind::gradient;
  result.wants.needs =
    options.histogram ? tensor_needs::histogram : tensor_needs::statistics;
  result.wants.sample = {options.sample, options.seed};
  result.wants.names = options.match;
  result.wants.every = options.every;
  return result;
}

}  // namespace troupe
