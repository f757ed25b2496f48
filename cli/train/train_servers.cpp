#include "troupe/cli/train/train_servers.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>

#include "troupe/base/fail.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/train/run_summary.hpp"
#include "troupe/engine/launch/job_membership.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/address/own_folder.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"
#include "troupe/monitors/http/http_address.hpp"
#include "troupe/monitors/live/attach_folder.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"

namespace troupe::cli {

namespace {

access_tokens tokens_of(const access_options& options) {
  return {read_token(options.endpoint_token_file),
          read_token(options.endpoint_control_token_file)};
}

}  // namespace

void require_dashboard(const access_options& options) {
  if (!options.dashboard.empty())
    require_servable(options.dashboard,
                     read_token(options.dashboard_token_file),
                     "a token by --dashboard-token-file FILE");
}

http_site_pointer make_site(const access_options& options) {
  return troupe::make_site(tokens_of(options));
}

std::unique_ptr<dashboard> open_dashboard(trainer& run,
                                          const train_options& options,
                                          const train_setup& setup,
                                          const http_site_pointer& site) {
  if (options.access.dashboard.empty())
    return nullptr;
  auto page = std::make_unique<dashboard>(
    run,
    dashboard_options{.address = options.access.dashboard,
                      .token = read_token(options.access.dashboard_token_file),
                      .site = site,
                      .save = options.access.dashboard_save,
                      .steps = options.steps,
                      .description = description_of(options, setup)});
  spdlog::info("dashboard: {}", page->url());
  return page;
}

namespace {

std::unique_ptr<job_server> serve(trainer& run, const std::string& address,
                                  const train_options& options,
                                  const replanner* orders,
                                  const http_site_pointer& site,
                                  const membership_pointer& membership) {
  auto operations = operations_of(run, options.steps, orders);
  if (membership)
    operations.goes_on = [membership] { return membership->job_goes_on(); };
  auto server = std::make_unique<job_server>(
    address, job_server_options{.operations = std::move(operations),
                                .attach_folder = options.access.attach_folder,
                                .site = site});
  const auto& file = options.access.endpoint_token_file.empty()
                       ? options.access.endpoint_control_token_file
                       : options.access.endpoint_token_file;
  spdlog::info("attach with: troupe top {}{}", server->where(),
               file.empty() ? "" : " --token-file " + file);
  return server;
}

}  // namespace

void require_endpoint(const access_options& options) {
  const auto tokens = tokens_of(options);
  require_legal(tokens);
  if (!options.attach_folder.empty())
    attach_folder(options.attach_folder);
  if (options.endpoint.empty() || options.endpoint == "none")
    return;
  const auto where = parse_endpoint(options.endpoint);
  trust_of_job(where, tokens);
  const auto folder = std::filesystem::path(where.path).parent_path();
  std::error_code trouble;
  if (!folder.empty() && !std::filesystem::is_directory(folder, trouble))
    fail(error_code::io, "--endpoint {}: there is no folder {}",
         options.endpoint, folder.string());
}

std::unique_ptr<job_server> open_endpoint(
  trainer& run, const train_options& options, const replanner* orders,
  const http_site_pointer& site, const membership_pointer& membership) {
  if (options.access.endpoint == "none")
    return nullptr;
  if (!options.access.endpoint.empty())
    return serve(run, options.access.endpoint, options, orders, site,
                 membership);
  try {
    if (const auto own = find_own_folder(); !own.trouble.empty())
      spdlog::warn("the endpoint is in {}, as {}", own.path, own.trouble);
    return serve(run,
                 membership ? job_endpoint(membership->name()) : own_endpoint(),
                 options, orders, site, membership);
  } catch (const error& reason) {
    spdlog::warn("clients cannot attach to this run: {}", reason.what());
    return nullptr;
  }
}

}  // namespace troupe::cli
