#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/dashboard/dashboard_subject.hpp"
#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/sink.hpp"

namespace troupe {

class trainer;

/// What a page shows of a trainer, which must outlive it. `steps`: of the whole
/// run; 0: unknown.
dashboard_subject subject_of(const trainer& run, std::int64_t steps = 0);

struct dashboard_options {
  std::string address = "127.0.0.1:0";  // see http_options
  /// If not empty, asked for; a browser takes it as a password, of any user.
  std::string token{};
  /// The site that the page is added to, which other servers may share; null: a
  /// site of its own.
  http_site_pointer site{};
  /// If not empty, a file for the page as it is when the run ends: HTML that
  /// shows it without the run.
  std::string save{};
};

/// Serves a run as a page: `/` is the page, which asks
/// `/state/REVISION/NAME` each second for what is new since then, under a name
/// that tells open pages apart (`/state`: for all). It has a thread of its own,
/// and no request delays a monitor, let alone a step.
///
///     dashboard shown(subject_of(run), {});
///     for (const auto& part : shown.monitors())
///       run.attach(part);
///
/// or `dashboard shown(run)`, which does both.
///
/// Is to be destroyed before what `subject.health` reaches; monitors and sink
/// may outlive it. Throws `invalid_argument` (address) and `io` (can't listen).
class dashboard {
 public:
  dashboard(dashboard_subject subject, const dashboard_options& options);
  /// The same with its monitors attached. The run must outlive it.
  explicit dashboard(trainer& run, const dashboard_options& options = {},
                     std::int64_t steps = 0);
  /// Saves the page, if wanted; an error is logged. Lets all open pages learn
  /// that the run is over, for 3 s at most.
  ~dashboard();
  dashboard(const dashboard&) = delete;
  dashboard& operator=(const dashboard&) = delete;

  /// Its data sources: one monitor for steps, ops and warnings; one, in every
  /// n-th step only, for statistics of activations and their gradients.
  std::vector<monitor> monitors() const;
  /// Where alerts and metrics of other monitors may be written to.
  sink_pointer sink() const;
  /// Shows a warning or an error ("error") of the program among the alerts; any
  /// thread.
  void add_warning(const char* kind, const std::string& text);
  std::string url() const;  // http://127.0.0.1:43211/
  /// Open ones; any thread.
  std::size_t connections() const;

 private:
  class impl;
  std::unique_ptr<impl> impl_;
};

/// The page, made at build time of the files in `page/`: HTML with its style
/// and script inside. `@nonce@` stands where a response's nonce belongs.
std::string_view dashboard_page();

}  // namespace troupe
