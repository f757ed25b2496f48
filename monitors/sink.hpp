#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/event.hpp"

namespace troupe {

/// A named number of a step, as sinks write it; slashes group names.
struct metric {
  std::string name;
  double value = 0;
};
TROUPE_FIELDS(metric, name, value)
template <>
inline constexpr bool travels_as_row<metric> = true;

/// A histogram by powers of two of a tensor's magnitudes.
struct metric_histogram {
  std::string name;
  tensor_statistics statistics;
};
TROUPE_FIELDS(metric_histogram, name, statistics)
template <>
inline constexpr bool travels_as_row<metric_histogram> = true;

/// A monitor's findings in a step.
struct metrics_record {
  event_source source;
  std::vector<metric> values{};
  std::vector<metric_histogram> histograms{};
};
TROUPE_FIELDS(metrics_record, source, values, histograms)

/// Something that a person should look at.
struct alert {
  event_source source;
  std::string monitor;
  std::string text;  // may have several lines
};
TROUPE_FIELDS(alert, source, monitor, text)

/// A setting of a run, such as {"lr", "0.001"}. The value is TOML.
struct run_setting {
  std::string name;
  std::string value;
};

/// Where monitors write what they found. Several monitors may share one: all
/// members may be called by any thread. Throws `io`.
class sink {
 public:
  virtual ~sink() = default;
  virtual void write(const metrics_record& record) = 0;
  virtual void write(const alert& alert) = 0;
  /// Before the first record, for sinks that show the settings of a run.
  virtual void describe(const std::vector<run_setting>&) {}
};
using sink_pointer = std::shared_ptr<sink>;

/// A sink that is never null. Throws `invalid_argument` for null.
class required_sink {
 public:
  required_sink(sink_pointer pointer);  // NOLINT: converts

  sink* operator->() const { return sink_.get(); }

 private:
  sink_pointer sink_;
};

/// Hands everything to several.
sink_pointer join(std::vector<sink_pointer> sinks);

/// A sink of one's own; either may be empty.
sink_pointer callback_sink(std::function<void(const metrics_record&)> metrics,
                           std::function<void(const alert&)> alerts = {});

}  // namespace troupe
