#include "troupe/monitors/live/endpoint_server.hpp"

#include "troupe/actors/trainer.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/monitors/live/job_server.hpp"
#include "troupe/monitors/live/replanner.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"

namespace troupe {

namespace {

/// Null where the order of ops can't be changed.
std::unique_ptr<replanner> orders_of(trainer& run, std::int64_t every) {
  if (!can_replan(run)) {
    if (every > 0)
      fail(error_code::invalid_argument,
           "replan_every is {}: replanning is not supported for schedules that "
           "update within a step, nor with cuda_graphs or replay; use 0",
           every);
    return nullptr;
  }
  auto orders = std::make_unique<replanner>(run, every);
  run.attach(orders->watch());
  return orders;
}

job_server_options serving(trainer& run, const endpoint_options& options,
                           const replanner* orders) {
  return {.operations = operations_of(run, options.steps, orders),
          .tokens = options.tokens,
          .attach_folder = options.attach_folder,
          .site = options.site,
          .limits = options.limits};
}

}  // namespace

struct endpoint_server::impl {
  impl(trainer& run, const endpoint_options& options)
    : orders(orders_of(run, options.replan_every)),
      server(options.address.empty() ? own_endpoint() : options.address,
             serving(run, options, orders.get())) {}

  const std::unique_ptr<replanner> orders;
  job_server server;
};

endpoint_server::endpoint_server(trainer& run, const endpoint_options& options)
  : impl_(std::make_unique<impl>(run, options)) {}

endpoint_server::~endpoint_server() {
  close();
}

void endpoint_server::close() {
  if (impl_->orders)  // a replan that waits for steps gives up
    impl_->orders->end();
  impl_->server.close();
}

std::string endpoint_server::where() const {
  return impl_->server.where();
}

std::size_t endpoint_server::connections() const {
  return impl_->server.connections();
}

}  // namespace troupe
