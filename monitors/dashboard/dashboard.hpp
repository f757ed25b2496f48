#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/events/monitor.hpp"
#include "troupe/monitors/dashboard/dashboard_data.hpp"
#include "troupe/monitors/sink.hpp"
#include "troupe/monitors/sinks/http_server.hpp"

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
  std::size_t connections() const { return server_.connections(); }

 private:
  http_response answer(const std::string& path);

  std::int64_t statistics_every_;
  std::shared_ptr<dashboard_data> data_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> asked_;
  bool told_the_end_ = false;
  http_server server_;  // the last: its thread uses the others
};

/// The page, made at build time of the files in `page/`: HTML with its style
/// and script inside. `@nonce@` stands where a response's nonce belongs.
std::string_view dashboard_page();

}  // namespace troupe
