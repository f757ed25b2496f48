#include "troupe/cli/train/train_endpoint.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/train/train_monitors.hpp"
#include "troupe/engine/transport/endpoint.hpp"
#include "troupe/monitors/live/live_trust.hpp"
#include "troupe/monitors/live/serve.hpp"

namespace troupe::cli {

namespace {

/// Makes monitors of specs, for clients; the run must outlive them.
decltype(job_operations::make) factory_for(trainer& run,
                                           const train_setup& setup) {
  return [context = context_of(run, setup, nullptr)](
           const std::string& spec, const sink_pointer& sink,
           const job_operations::printer& print) {
    auto of_client = context;
    of_client.sink = sink;
    of_client.print = print;
    return make_monitor(spec, of_client);
  };
}

std::unique_ptr<endpoint_server> serve(trainer& run, const std::string& address,
                                       const train_options& options,
                                       const train_setup& setup,
                                       const replanner* orders) {
  endpoint_options serving;
  serving.token = read_token(options.access.endpoint_token_file);
  serving.operations =
    operations_of(run, factory_for(run, setup), options.steps);
  if (orders)
    serving.operations.replan = [&run, orders](const nlohmann::json& what) {
      return replan(*orders, *run.shared_plan(), what);
    };
  auto server = std::make_unique<endpoint_server>(address, std::move(serving));
  spdlog::info("attach with: troupe top {}{}", server->where(),
               options.access.endpoint_token_file.empty()
                 ? ""
                 : " --token-file " + options.access.endpoint_token_file);
  return server;
}

}  // namespace

void require_endpoint(const access_options& options) {
  const auto token = read_token(options.endpoint_token_file);
  if (options.endpoint.empty() || options.endpoint == "none")
    return;
  const auto where = parse_endpoint(options.endpoint);
  live_trust(where, token);
  const auto folder = std::filesystem::path(where.path).parent_path();
  std::error_code trouble;
  if (!folder.empty() && !std::filesystem::is_directory(folder, trouble))
    fail(error_code::io, "--endpoint {}: there is no folder {}",
         options.endpoint, folder.string());
}

std::unique_ptr<endpoint_server> open_endpoint(trainer& run,
                                               const train_options& options,
                                               const train_setup& setup,
                                               const replanner* orders) {
  if (options.access.endpoint == "none")
    return nullptr;
  if (!options.access.endpoint.empty())
    return serve(run, options.access.endpoint, options, setup, orders);
  try {
    return serve(run, default_endpoint(), options, setup, orders);
  } catch (const error& reason) {
    spdlog::warn("clients cannot attach to this run: {}", reason.what());
    return nullptr;
  }
}

}  // namespace troupe::cli
