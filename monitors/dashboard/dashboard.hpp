#pragma once

#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/dashboard/dashboard_data.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

struct dashboard_options {
  std::string address = "127.0.0.1:0";  // see http_options
  /// If not empty, asked for; a browser takes it as a password, of any user.
  std::string token{};
};

/// Serves a run as a page: `/` is the page, which asks `/state/REVISION` each
/// second for what is new since then (`/state`: for all). It has a thread of
/// its own, and nobody who asks delays a monitor, let alone a step.
///
///     dashboard shown({.plan = run.shared_plan(),
///                      .health = [&] { return run.health(); }}, {});
///     for (const auto& part : shown.monitors())
///       run.attach(part);
///
/// Is to be destroyed before what `subject.health` reaches; monitors and sink
/// may outlive it. Throws `invalid_argument` (address) and `io` (can't listen).
class dashboard {
 public:
  dashboard(dashboard_subject subject, const dashboard_options& options);
  /// Lets a page that is open learn that the run is over, for 1.5 s at most.
  ~dashboard();
  dashboard(const dashboard&) = delete;
  dashboard& operator=(const dashboard&) = delete;

  /// Its data sources: one monitor for steps, ops and warnings; one, in every
  /// n-th step only, for statistics of activations and their gradients.
  std::vector<monitor> monitors() const;
  /// Where alerts and metrics of other monitors may be written to.
  sink_pointer sink() const;
  std::string url() const;  // http://127.0.0.1:43211/
  /// Open ones; any thread.
  std::size_t connections() const;

 private:
  class service;
  std::unique_ptr<service> service_;
};

}  // namespace troupe
