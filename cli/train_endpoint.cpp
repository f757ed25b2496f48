#include "troupe/cli/train_endpoint.hpp"

#include <spdlog/spdlog.h>

#include "troupe/cli/live_options.hpp"
#include "troupe/cli/monitor_factory.hpp"
#include "troupe/monitors/live/endpoint.hpp"
#include "troupe/monitors/live/serve.hpp"
#include "troupe/schedules/error.hpp"

namespace troupe::cli {

namespace {

std::unique_ptr<endpoint_server> serve(trainer& run, const std::string& at,
                                       const train_options& options) {
  endpoint_options serving;
  serving.token = read_token(options.endpoint_token_file);
  serving.powers = powers_of(run, monitor_factory(run), options.steps);
  auto server = std::make_unique<endpoint_server>(at, std::move(serving));
  spdlog::info("attach with: troupe top {}{}", server->where(),
               options.endpoint_token_file.empty()
                 ? ""
                 : " --token-file " + options.endpoint_token_file);
  return server;
}

}  // namespace

std::unique_ptr<endpoint_server> open_endpoint(trainer& run,
                                               const train_options& options) {
  if (options.endpoint == "none")
    return nullptr;
  if (!options.endpoint.empty())
    return serve(run, options.endpoint, options);
  try {
    return serve(run, default_endpoint(), options);
  } catch (const error& reason) {
    spdlog::warn("nobody can attach to this run: {}", reason.what());
    return nullptr;
  }
}

}  // namespace troupe::cli
