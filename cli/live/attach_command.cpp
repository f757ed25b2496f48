#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/live/live_options.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/followed_job.hpp"
#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/live/repeated_messages.hpp"

namespace troupe::cli {

namespace {

constexpr auto attach_help = R"(
Whatever else begins with -- is a setting of the monitor before it, as in a
spec: `overflow --match 'blocks.*' --every 10` and
`overflow:match=blocks.*,every=10` are one.

Example:
  troupe attach overflow
  troupe attach unix:/tmp/x.sock overflow --match 'blocks.*.mlp*' --every 10
  troupe attach unix:/tmp/x.sock gap --every 10 stability
  troupe attach timeline --svg     # in the job's --attach-folder

Without an endpoint, your only job on this machine that listens at its default
endpoint is meant.
Prints what the monitors find until Ctrl-C, which detaches them, or until the
run ends. In a job that heals they are attached again in the process that leads
it next.
Exit codes: 0 done, 1 failed, 2 wrong usage.)";

constexpr auto detach_help = R"(
Example:
  troupe attach stability --keep
  troupe detach --list
  troupe detach unix:/tmp/x.sock 1

Without an endpoint, your only job on this machine that listens at its default
endpoint is meant.

Exit codes: 0 done, 1 failed, 2 wrong usage.)";

struct attach_options {
  live_options job;
  std::vector<std::string> specs;
  bool keep = false;
  bool json = false;
};

struct detach_options {
  live_options job;
  std::vector<std::string> words;
  bool list = false;
  bool json = false;
};

void print_metrics(const metrics_record& record) {
  for (const auto& each : record.values)
    fmt::print("step {} {} {:.6g}\n", record.source.step, plain_text(each.name),
               each.value);
}

void print_finding(const live_message& message) {
  if (message.type == "alert") {
    const auto found = alert_of(message.content);
    fmt::print("{}", plain_text(fmt::format("step {} alert of {}: {}\n",
                                            found.source.step, found.monitor,
                                            found.text)));
  } else if (message.type == "metrics") {
    print_metrics(metrics_of(message.content));
  } else if (message.type == "printed") {
    fmt::print("{}", plain_text(field<std::string>(message.content, "text")));
  }
  print_now("");
}

/// {"found": "alert", "metrics" or "printed", "id": the monitor's id, ...}
void print_json(const live_message& message) {
  auto line = message.content;
  line["found"] = message.type;
  line["id"] = message.monitor;
  print_now(json_text(line) + "\n");
}

/// Throws the error that ended a monitor, or the run; nothing if they ended by
/// themselves.
void check_end(const live_message& message) {
  require_not_failed(message);
  const auto reason = field<std::string>(message.content, "reason");
  if (reason.empty())
    return;
  if (!field<bool>(message.content, "stops_run"))
    fail(error_code::transport, "monitor {}: {}", message.monitor, reason);
  spdlog::warn("monitor {} stops the run: {}", message.monitor, reason);
}

/// Monitors that stream to this client: each spec by the monitor's id now, and
/// the id by which it is known to whoever reads the output.
struct streamed_monitor {
  std::string spec;
  std::int64_t known_as = 0;
};
using streamed_monitors = std::map<std::int64_t, streamed_monitor>;

/// Attaches all monitors, or none.
std::vector<std::int64_t> attach_all(live_client& client,
                                     const std::vector<std::string>& specs,
                                     bool keep) {
  std::vector<std::int64_t> ids;
  try {
    for (const auto& spec : specs) {
      const auto attached = client.attach(spec, keep);
      ids.push_back(attached.id);
      if (!keep)
        spdlog::info("attached {} as {}", spec, attached.id);
      if (!attached.folder.empty())
        spdlog::info("{} writes to {} on the job's machine", spec,
                     plain_text(attached.folder));
    }
  } catch (...) {
    for (const auto id : ids)
      if (keep)  // others are detached when this client ends
        client.detach(id);
    throw;
  }
  return ids;
}

void print(const live_message& message, bool json) {
  if (json)
    print_json(message);
  else if (!log_warning(message))
    print_finding(message);
}

/// Monitors are known as before to whoever reads the output.
void attach_again(live_client& next, streamed_monitors& monitors) {
  streamed_monitors now;
  for (const auto& [id, each] : monitors)
    now[next.attach(each.spec)] = each;
  monitors = std::move(now);
}

/// Prints what monitors find until all have ended. Returns whether another
/// process leads the job now.
bool print_until_lost(followed_job& job, streamed_monitors& monitors,
                      repeated_messages& repeated, bool json) {
  std::optional<live_message> last;
  std::set<std::int64_t> open;
  for (const auto& [id, monitor] : monitors)
    open.insert(id);
  job.client().stream([&](live_message message) {
    if (message.type == "ended") {
      check_end(message);
      open.erase(message.monitor);
      if (!has_flag(message.content, "goes_on"))
        monitors.erase(message.monitor);
      last = std::move(message);
      return !open.empty();
    }
    message.monitor = monitors.at(message.monitor).known_as;
    if (!repeated.note(message, message.monitor))
      print(message, json);
    return true;
  });
  return !monitors.empty()
         && job.follow(open.empty() ? &*last : nullptr, [&](live_client& next) {
              attach_again(next, monitors);
            });
}

/// Those that stream go on in the process that leads the job next.
void print_all(followed_job& job, const std::vector<std::int64_t>& ids,
               const attach_options& options) {
  streamed_monitors monitors;
  for (std::size_t i = 0; i < ids.size(); ++i)
    monitors[ids[i]] = {options.specs[i], ids[i]};
  repeated_messages repeated;
  while (print_until_lost(job, monitors, repeated, options.json))
    repeated.repeat();
  spdlog::info("no monitors are attached any more");
}

void run_attach(const attach_options& options) {
  auto job = options.job.followed();
  run_until_signal([&] { job.interrupt(); },
                   [&] {
                     const auto ids =
                       attach_all(job.client(), options.specs, options.keep);
                     if (!options.keep)
                       return print_all(job, ids, options);
                     if (options.json)
                       return print_now(json_text<nlohmann::json>(ids) + "\n");
                     for (const auto id : ids)
                       fmt::print("{}\n", id);
                   });
}

void print_attached(live_client& client, bool json) {
  const auto all = client.request("GET", "/monitors");
  if (json)
    return print_now(json_text(all) + "\n");
  for (const auto& each : all)
    fmt::print("{} {}{}\n", field<std::int64_t>(each, "id"),
               printable(field<std::string>(each, "spec"), 4096),
               field<bool>(each, "keep") ? " (kept)" : "");
}

std::int64_t id_in(const std::vector<std::string>& words) {
  if (words.empty())
    fail(error_code::invalid_argument,
         "no monitor given; give its id, which --list prints");
  if (words.size() > 1)
    fail(error_code::invalid_argument,
         "one monitor is detached at a time; give one id");
  const auto id = parse_number<std::int64_t>(words.front());
  if (!id)
    fail(error_code::invalid_argument,
         "'{}' is not the id of a monitor; --list prints each with its id",
         printable(words.front()));
  return *id;
}

void run_detach(const detach_options& options) {
  auto client = options.job.connect();
  if (options.list)
    print_attached(client, options.json);
  else
    client.detach(id_in(options.words));
}

}  // namespace

void add_attach_command(CLI::App* command) {
  const auto options = std::make_shared<attach_options>();
  add_value(*command, "spec [ENDPOINT] SPEC...", options->specs,
            "the job's endpoint, unless there is one job; then monitors, such "
            "as overflow or gap:every=10")
    ->required();
  options->job.add_token_to(*command);
  command->add_flag("--keep", options->keep,
                    "keep them attached; print their ids and return");
  command->add_flag("--json", options->json,
                    "a JSON object a line for what monitors find; with --keep "
                    "a list of the ids");
  command->footer(attach_help);
  command->callback([options] {
    options->job.take_endpoint(options->specs);
    if (options->specs.empty())
      fail(error_code::invalid_argument,
           "no monitor given; name one, such as overflow or gap:every=10");
    run_attach(*options);
  });
}

void add_detach_command(CLI::App* command) {
  const auto options = std::make_shared<detach_options>();
  add_value(*command, "id [ENDPOINT] [ID]", options->words,
            "the job's endpoint, unless there is one job; then an id, as "
            "attach printed it");
  options->job.add_token_to(*command);
  command->add_flag("--list", options->list,
                    "print what is attached over the endpoint, each with its "
                    "id");
  command
    ->add_flag("--json", options->json,
               "with --list: a list of objects, each with id, spec, keep")
    ->needs("--list");
  command->footer(detach_help);
  command->callback([options] {
    options->job.take_endpoint(options->words);
    if (options->list && !options->words.empty())
      fail(error_code::invalid_argument, "give an id or --list, not both");
    if (!options->list)
      id_in(options->words);
    run_detach(*options);
  });
}

namespace {

bool is_attach_flag(const std::string& argument) {
  return argument == "--keep" || argument == "--json" || argument == "--help"
         || argument.starts_with("--token-file=");
}

/// Turns "--abort-after=3", or "--abort-after" and "3", into "abort_after=3".
std::string setting_of(const std::string& flag, const std::string& value) {
  const auto equals = flag.find('=');
  auto key = flag.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(key, '-', '_');
  return key + "="
         + (equals == std::string::npos ? value : flag.substr(equals + 1));
}

}  // namespace

std::vector<std::string> fold_settings(std::vector<std::string> arguments) {
  std::vector<std::string> folded;
  std::vector<std::size_t> specs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    const bool more = i + 1 < arguments.size();
    if (argument == "--token-file" && more) {
      folded.insert(folded.end(), {argument, arguments[++i]});
    } else if (is_attach_flag(argument) || !argument.starts_with("--")) {
      if (!argument.starts_with("-") && !is_endpoint(argument))
        specs.push_back(folded.size());
      folded.push_back(argument);
    } else {
      if (specs.empty())
        fail(error_code::invalid_argument,
             "{} is not a flag of attach and follows no monitor: write "
             "settings after the monitor's name",
             argument);
      const bool has_value = more && argument.find('=') == std::string::npos
                             && !arguments[i + 1].starts_with("--");
      auto& spec = folded[specs.back()];
      spec += spec.find(':') == std::string::npos ? ':' : ',';
      spec += setting_of(argument, has_value ? arguments[i + 1] : "true");
      i += has_value ? 1 : 0;
    }
  }
  return folded;
}

}  // namespace troupe::cli
