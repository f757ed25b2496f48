// The dashboard and the endpoint of a run.
#pragma once

#include <memory>

#include "troupe/actors/trainer.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/monitors/dashboard/dashboard.hpp"
#include "troupe/monitors/http/serving.hpp"
#include "troupe/monitors/live/job_server.hpp"

namespace troupe {
class job_membership;
class replanner;
}  // namespace troupe

namespace troupe::cli {

/// The HTTP site of this process, for holders of the endpoint's tokens. Throws
/// as `read_token` and `http_site` do.
http_site_pointer make_site(const access_options& options);

/// Throws `invalid_argument` for a --dashboard that can't be served.
void require_dashboard(const access_options& options);

/// Serves the page for --dashboard, and logs its address; null without the
/// flag. The run must outlive it. Throws `invalid_argument` and `io`.
std::unique_ptr<dashboard> open_dashboard(trainer& run,
                                          const train_options& options,
                                          const train_setup& setup,
                                          const http_site_pointer& site);

/// Throws what `open_endpoint` would throw, without opening anything: for the
/// token file and the endpoint's address.
void require_endpoint(const access_options& options);

using membership_pointer = std::shared_ptr<job_membership>;

/// Opens the run's endpoint by --endpoint, and logs how to attach. Null if it
/// is disabled, or, with a warning, if the default one can't be opened. Throws
/// `invalid_argument`, `io`, `transport`. `orders` outlives the server; null if
/// the run keeps its order. `membership`: of a job that heals, whose default
/// endpoint is the same in all processes that lead it; may be null.
std::unique_ptr<job_server> open_endpoint(trainer& run,
                                          const train_options& options,
                                          const replanner* orders,
                                          const http_site_pointer& site,
                                          const membership_pointer& membership);

}  // namespace troupe::cli
