#pragma once

#include <optional>
#include <string>
#include <vector>

#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

class dashboard;
class trainer;

/// The monitors of a run, and where its figures go. The strings are paths of
/// files; empty: none is written.
struct monitoring_options {
  std::vector<std::string> monitors{};  // specs, as make_monitor takes them
  std::vector<std::string> sinks{};     // specs, as make_sink takes them
  std::optional<progress_options> progress{};  // where steps are printed
  std::string metrics{};    // JSON lines, one per step; a resumed run appends
  std::string timeline{};   // picture of the last step (SVG)
  std::string trace{};      // Chrome/Perfetto trace of the last steps
  std::string costs{};      // measured costs of ops
  std::string order_log{};  // the order in which ranks started their ops
  std::vector<run_setting> settings{};  // what sinks show of the run
};

/// Throws `invalid_argument` and `io` for a monitor or a sink that can't be
/// made; opens none.
void require_legal(const monitoring_options& options);

/// Whether one of the monitors watches the run (subscription::watches), which
/// is then to be made with execution_options::holds_updates. Throws as
/// `require_legal`.
bool watches(const monitoring_options& options);

/// Attaches what the options name to the run:
///
///     attach_monitors(run, {.monitors = {"overflow"},
///                           .sinks = {"csv:a.csv"}});
///
/// In a job all processes may call it: the one that leads attaches, as its
/// monitors see all ranks, and the others do nothing. Alerts go to the sinks
/// and the page, if there is one, and to the log unless a sink prints them.
/// Without sinks and page, the largest values of a gap monitor are printed. A
/// Prometheus sink without an address is served by the site. Throws as
/// `require_legal`.
void attach_monitors(trainer& run, const monitoring_options& options,
                     const dashboard* page = nullptr,
                     const http_site_pointer& site = nullptr);

/// A monitor that `make_monitor` makes of a text for a run, which must outlive
/// it; its findings go to the sink. Throws as `make_monitor`.
///
///     run.attach(make_monitor("gap:every=10", run, sink));
monitor make_monitor(const std::string& spec, trainer& run, sink_pointer sink);

}  // namespace troupe
