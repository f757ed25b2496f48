#include "troupe/monitors/dashboard/dashboard.hpp"

#include "troupe/actors/step/run_health.hpp"
#include "troupe/actors/trainer.hpp"
#include "troupe/engine/plan/plan.hpp"
#include "troupe/monitors/dashboard/dashboard_server.hpp"

namespace troupe {

namespace {

dashboard_subject subject_of(const trainer& run,
                             const dashboard_options& options) {
  return {.plan = run.shared_plan(),
          .data_parallel = run.options().data_parallel,
          .steps = options.steps,
          .statistics_every = options.statistics_every,
          .description = options.description,
          .clips = run.options().numerics.clip > 0,
          .health = [&run] { return run.health(); }};
}

}  // namespace

dashboard::dashboard(trainer& run, const dashboard_options& options)
  : server_(
    std::make_unique<dashboard_server>(subject_of(run, options), options)) {
  for (const auto& part : server_->monitors())
    run.attach(part);
}

dashboard::~dashboard() = default;

sink_pointer dashboard::sink() const {
  return server_->sink();
}

void dashboard::add_warning(const char* kind, const std::string& text) {
  server_->add_warning(kind, text);
}

std::string dashboard::url() const {
  return server_->url();
}

std::size_t dashboard::connections() const {
  return server_->connections();
}

}  // namespace troupe
