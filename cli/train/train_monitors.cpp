#include "troupe/cli/train/train_output.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "troupe/base/error.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/address/own_folder.hpp"
#include "troupe/monitors/http/endpoint_trust.hpp"
#include "troupe/monitors/http/http_address.hpp"
#include "troupe/monitors/live/trainer_operations.hpp"
#include "troupe/monitors/metrics.hpp"
#include "troupe/monitors/monitor_log.hpp"
#include "troupe/monitors/progress.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/timing/cost_samples.hpp"
#include "troupe/monitors/timing/timeline.hpp"

namespace troupe::cli {

namespace {

bool is_called(const std::string& spec, std::string_view name) {
  return std::string_view(spec).substr(0, spec.find(':')) == name;
}

bool gives_terminal(const train_options& options) {
  return std::ranges::any_of(options.output.sink, [](const std::string& spec) {
    return is_called(spec, "terminal");
  });
}

/// Logs alerts, unless a terminal's sink prints them.
sink_pointer log_of_alerts() {
  return callback_sink({}, [](const alert& what) {
    log_finding(fmt::format("{}: {}", what.monitor, what.text));
  });
}

/// Adds a sink for the gap monitor, whose metrics would otherwise be lost.
void add_default_sinks(std::vector<sink_pointer>& target,
                       const train_options& options, bool has_page) {
  const auto gap = std::ranges::any_of(
    options.output.monitor,
    [](const std::string& spec) { return is_called(spec, "gap"); });
  if (!gap || has_page || !options.output.sink.empty())
    return;
  constexpr auto* shown = "terminal:match=gap/*,top=5";
  spdlog::info(
    "no --sink given: printing the largest values of --monitor gap, as --sink "
    "'{}' does",
    shown);
  target.push_back(make_sink(shown));
}

/// The sinks for --sink and the page; alerts go to the log too.
/// `resumed`: the step from which the run goes on.
sink_pointer make_sinks(const train_options& options, const dashboard* page,
                        std::int64_t resumed, const http_site_pointer& site) {
  std::vector<sink_pointer> all;
  for (const auto& spec : options.output.sink)
    all.push_back(make_sink(spec, resumed, site));
  add_default_sinks(all, options, page != nullptr);
  if (!gives_terminal(options) && all.size() == options.output.sink.size())
    all.push_back(log_of_alerts());
  if (page)
    all.push_back(page->sink());
  return join(std::move(all));
}

access_tokens tokens_of(const access_options& options) {
  return {read_token(options.endpoint_token_file),
          read_token(options.endpoint_control_token_file)};
}

/// A monitor that shows each step sees no op times, which are unknown for a
/// step that is launched as a whole.
monitor of_each_step(monitor made, const train_options& options) {
  made.wants.ops = made.wants.ops && !options.devices.cuda_graphs;
  return made;
}

}  // namespace

void require_monitors(const train_options& options) {
  monitor_context nothing;
  nothing.sink = callback_sink({});
  nothing.observe_every = [](std::int64_t) {};
  for (const auto& spec : options.output.monitor)
    make_monitor(spec, nothing);
  for (const auto& spec : options.output.sink)
    require_sink(spec);
}

void attach_monitors(trainer& run, const train_options& options,
                     const dashboard* page, const http_site_pointer& site) {
  const auto resumed = run.progress().step;
  run.attach(warning_monitor());
  run.attach(of_each_step(progress_monitor(progress_to(options)), options));
  if (!options.output.log_json.empty())
    run.attach(
      of_each_step(metrics_monitor(options.output.log_json, resumed), options));
  if (!options.output.timeline.empty() || !options.output.trace.empty())
    run.attach(
      timeline_monitor({options.output.timeline, options.output.trace}));
  if (!options.output.costs_out.empty())
    run.attach(cost_monitor(options.output.costs_out));
  if (!options.order.log.empty())
    run.attach(order_log_monitor(options.order.log, resumed));
  const auto context =
    context_of(run, make_sinks(options, page, resumed, site));
  for (const auto& spec : options.output.monitor)
    run.attach(make_monitor(spec, context));
  if (!options.output.sink.empty())
    run.attach(of_each_step(step_metrics_monitor(context.sink), options));
  if (page)
    for (const auto& part : page->monitors())
      run.attach(part);
}

void require_dashboard(const access_options& options) {
  if (!options.dashboard.empty())
    require_servable(options.dashboard,
                     read_token(options.dashboard_token_file));
  else if (!options.dashboard_token_file.empty())
    throw error(error_code::invalid_argument,
                "--dashboard-token-file requires --dashboard HOST:PORT");
  else if (!options.dashboard_save.empty())
    throw error(error_code::invalid_argument,
                "--dashboard-save requires --dashboard HOST:PORT");
}

http_site_pointer make_site(const access_options& options) {
  return std::make_shared<http_site>(tokens_of(options));
}

std::unique_ptr<dashboard> open_dashboard(const trainer& run,
                                          const train_options& options,
                                          const http_site_pointer& site) {
  if (options.access.dashboard.empty())
    return nullptr;
  auto made = std::make_unique<dashboard>(
    subject_of(run, options.steps),
    dashboard_options{.address = options.access.dashboard,
                      .token = read_token(options.access.dashboard_token_file),
                      .site = site,
                      .save = options.access.dashboard_save});
  spdlog::info("dashboard: {}", made->url());
  return made;
}

namespace {

std::unique_ptr<endpoint_server> serve(trainer& run, const std::string& address,
                                       const train_options& options,
                                       const replanner* orders,
                                       const http_site_pointer& site) {
  auto server = std::make_unique<endpoint_server>(
    run, run_endpoint_options{.address = address,
                              .attach_folder = options.access.attach_folder,
                              .site = site,
                              .steps = options.steps,
                              .orders = orders});
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

std::unique_ptr<endpoint_server> open_endpoint(trainer& run,
                                               const train_options& options,
                                               const replanner* orders,
                                               const http_site_pointer& site) {
  if (options.access.endpoint == "none")
    return nullptr;
  if (!options.access.endpoint.empty())
    return serve(run, options.access.endpoint, options, orders, site);
  try {
    if (const auto own = find_own_folder(); !own.trouble.empty())
      spdlog::warn("the endpoint is in {}, as {}", own.path, own.trouble);
    return serve(run, {}, options, orders, site);
  } catch (const error& reason) {
    spdlog::warn("clients cannot attach to this run: {}", reason.what());
    return nullptr;
  }
}

}  // namespace troupe::cli
