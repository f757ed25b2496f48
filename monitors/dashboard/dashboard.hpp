#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "troupe/monitors/dashboard/run_description.hpp"
#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

class dashboard_server;
class trainer;

struct dashboard_options {
  /// `HOST:PORT`, a number or `localhost`, `[::1]:80` for IPv6; port 0: one
  /// that is free.
  std::string address = "127.0.0.1:0";
  /// If not empty, asked for; a browser takes it as a password, of any user.
  std::string token{};
  /// The site that the page is added to, which other servers may share; null: a
  /// site of its own.
  http_site_pointer site{};
  /// If not empty, a file for the page as it is when the run ends: HTML that
  /// shows it without the run.
  std::string save{};
  std::int64_t steps = 0;              // of the whole run; 0: unknown
  std::int64_t statistics_every = 10;  // steps between heat maps
  run_description description{};
};

/// Serves a run as a page: `/` is the page, which asks
/// `/state/REVISION/NAME` each second for what is new since then, under a name
/// that tells open pages apart (`/state`: for all). It has a thread of its own,
/// and no request delays a monitor, let alone a step.
///
///     dashboard page(run);
class dashboard {
 public:
  /// Attaches monitors to the run, which must outlive the page: one for steps,
  /// ops and warnings; one, in every n-th step only, for statistics of
  /// activations and their gradients. Throws `invalid_argument` (address) and
  /// `io` (can't listen).
  explicit dashboard(trainer& run, const dashboard_options& options = {});
  /// Saves the page, if wanted; an error is logged. Lets all open pages learn
  /// that the run is over, for 3 s at most.
  ~dashboard();
  dashboard(const dashboard&) = delete;
  dashboard& operator=(const dashboard&) = delete;

  /// Shows alerts and metrics of other monitors, which may outlive the page;
  /// attach_monitors adds it to its own sinks.
  sink_pointer sink() const;
  /// Shows a warning or an error ("error") of the program among the alerts; any
  /// thread.
  void add_warning(const char* kind, const std::string& text);

  std::string url() const;  // http://127.0.0.1:43211/
  /// Open ones; any thread.
  std::size_t connections() const;

 private:
  std::unique_ptr<dashboard_server> server_;
};

}  // namespace troupe
