#include "troupe/cli/train/train_setup.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/fnv_hash.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/train/train_healing.hpp"
#include "troupe/engine/data/mapped_file.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/schedules/text_form.hpp"
#include "troupe_version.hpp"

namespace troupe::cli {

namespace {

/// The settings that may differ between processes.
constexpr std::string_view own_settings =
  "announce attach-folder authority certificates dashboard-token-file endpoint "
  "endpoint-control-token-file endpoint-token-file heal job-token-file join "
  "listen "
  "log-level patience profile profile-from profile-steps rendezvous slow-load";
/// The outputs that process 0 writes. They may differ too, but those of other
/// processes have an effect only if process 0 has one.
constexpr std::string_view outputs_of_leader =
  "costs-out dashboard dashboard-save log-json max-shard-size monitor "
  "order-log run-name save-dtype sink timeline trace";
/// The outputs of parameters, which all processes gather: all processes have
/// them or none.
constexpr std::string_view outputs_of_all =
  "save-adapter save-initial save-model save-parameters";

/// Adds the content of files that all processes read, as files at equal paths
/// may differ.
void add_contents(job_description& description, const train_options& options) {
  const auto add = [&](const std::string& path, std::string content) {
    description.emplace_back("what " + path + " holds", std::move(content));
  };
  for (const auto& path : options.data.text)
    add(path, content_of_text(path, options.data));
  for (const auto& path : options.data.loss_mask)
    add(path, content_of_text(path, {}));
  std::vector<std::string> paths;
  if (const auto file = sizes_file(options.partition); !file.empty())
    paths.push_back(file);
  if (!options.model.initial.empty())
    paths.push_back(options.model.initial);
  if (!options.order.replay.empty())
    paths.push_back(options.order.replay);
  if (options.model.is_folder())
    for (auto& path :
         model_folder(options.model.name, options.model.use()).files())
      paths.push_back(std::move(path));
  for (const auto& path : paths)
    add(path, content_text(path));
}

/// Adds which outputs are set, without their values, which may differ.
void add_outputs(job_description& description, const CLI::App& command,
                 bool leads) {
  const auto add = [&](std::string_view names, const char* absent) {
    for (const auto name : split_words(names)) {
      const auto flag = fmt::format("--{}", name);
      const auto* option = command.get_option_no_throw(flag);
      const bool is_given = option != nullptr && option->count() > 0;
      description.emplace_back(flag, is_given ? "given" : absent);
    }
  };
  add(outputs_of_leader, leads ? "not given" : agrees_with_any);
  add(outputs_of_all, "not given");
}

/// Describes all other settings, with their values.
job_description describe(const CLI::App& command) {
  job_description description{{"troupe", TROUPE_VERSION}};
  auto own = split_words(own_settings);
  for (const auto outputs : {outputs_of_leader, outputs_of_all})
    std::ranges::copy(split_words(outputs), std::back_inserter(own));
  for (auto& [name, value] : flag_values(command)) {
    if (name == "device")  // each process chooses its own devices of a kind
      value = value.substr(0, value.find(':'));
    if (std::ranges::find(own, name) == own.end())
      description.emplace_back("--" + name, std::move(value));
  }
  return description;
}

/// A unix socket needs no credentials.
bool meet_by_unix_sockets(const job_options& joining) {
  return joining.rendezvous.empty()
           ? joining.place.is_one_machine()
           : as_endpoint(joining.rendezvous).starts_with("unix:");
}

}  // namespace

bool prints_common_output() {
  return read_environment().process == 0;
}

void require_job(const train_options& options) {
  const auto place = read_environment();
  if (!place.doubt.empty())
    spdlog::warn(place.doubt);
  if (options.plain && !place.is_alone())
    fail(error_code::invalid_argument,
         "--plain runs in one process, and {} started {}; start it alone",
         place.launcher, place.processes);
  require_trust(options.processes.trust);
  const auto& joining = options.processes.joining;
  for (const auto& where : {joining.rendezvous, joining.announced})
    if (!where.empty())
      peer_endpoint(where);
  if (!joining.listens.empty())
    parse_endpoint(as_endpoint(joining.listens));
}

job_options joining_of(const CLI::App& command, const train_options& options,
                       const signal_watch& signals, job_description more) {
  auto joining = options.processes.joining;
  joining.place = read_environment();
  joining.lines = options.processes.link;
  joining.shown = credentials_of(options.processes.trust);
  joining.description = describe(command);
  std::ranges::move(more, std::back_inserter(joining.description));
  // Any process of a job that heals may come to lead it.
  add_outputs(joining.description, command,
              joining.place.process == 0 || is_healing(options.healing));
  add_contents(joining.description, options);
  joining.patience = std::chrono::milliseconds(
    static_cast<std::int64_t>(options.processes.patience * 1000));
  joining.news = [](const std::string& whom) { spdlog::warn(whom); };
  log_as_process(joining.place.process, options.output.log_level);
  joining.stopped = [&signals] { return signals.exit_code() != 0; };
  return joining;
}

std::shared_ptr<mesh> join_job(const CLI::App& command,
                               const train_options& options,
                               signal_watch& signals, job_description more) {
  const auto joining = joining_of(command, options, signals, std::move(more));
  const auto& place = joining.place;
  if (place.is_alone())
    return nullptr;
  signals.defer_signals();  // so that sockets are removed
  auto job = troupe::join_job(joining);
  signals.on_end({});
  if (signals.exit_code() != 0)
    fail(error_code::interrupted,
         "stopped by a signal as the job began; nothing is saved");
  spdlog::info("{} processes ({})", place.processes, place.launcher);
  if (meet_by_unix_sockets(joining)
      && (!joining.shown.token.empty() || !joining.shown.certificates.empty()))
    spdlog::info(
      "the processes meet by unix sockets of this user: the job's secret or "
      "certificates are not asked for, and may differ");
  return job;
}

}  // namespace troupe::cli
