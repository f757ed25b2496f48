#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

/// A name and labels that Prometheus allows, with the labels' braces.
struct prometheus_series {
  std::string name, labels;
  friend auto operator<=>(const prometheus_series&,
                          const prometheus_series&) = default;
};

/// A metric's first and last part are the name, `troupe_FIRST_LAST`; the part
/// before the last is the label `name`, all parts before that `kind`:
/// `gap/grads/fc.weight/max` is
/// `troupe_gap_max{kind="grads",name="fc.weight"}`. Characters of a
/// name other than letters, digits and `_` become `_`. Outside of training
/// there is a label `phase` as well.
prometheus_series prometheus_series_of(const std::string& metric,
                                       phase phase = phase::training);

/// The latest value of every metric as gauges, besides `troupe_step`, and
/// alerts counted as `troupe_alerts_total{monitor="NAME"}`. Members may be
/// called by any thread, and wait for no formatting of text.
class prometheus_table {
 public:
  void add(const metrics_record& record);
  void add(const alert& alert);
  /// In the text format 0.0.4.
  std::string text() const;

 private:
  using values = std::map<prometheus_series, double>;

  mutable std::mutex mutex_;
  values gauges_, alerts_;  // nothing is ever erased
};

struct prometheus_options {
  std::string address = "127.0.0.1:0";  // see http_options
  std::string token{};
  /// The site that the metrics are added to, which other servers may share;
  /// null: a site of its own.
  http_site_pointer site{};
  /// Told where it is served, `http://127.0.0.1:43211/metrics`, before
  /// `prometheus_sink` returns; if empty, that is logged.
  std::function<void(const std::string& url)> listening = {};
};

/// Serves a `prometheus_table` of metrics and alerts at `/metrics`,
/// until it is destroyed. Nobody who asks delays a monitor. Throws
/// `invalid_argument` and `io`.
sink_pointer prometheus_sink(const prometheus_options& options);

}  // namespace troupe
