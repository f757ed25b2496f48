#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "troupe/base/deadline.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/cli/commands.hpp"
#include "troupe/cli/config_file.hpp"
#include "troupe/cli/failure_flag.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/trust_flags.hpp"
#include "troupe/engine/launch/authority/authority_candidate.hpp"
#include "troupe/engine/launch/authority/authority_server.hpp"
#include "troupe/engine/launch/authority/record_in_etcd.hpp"
#include "troupe/engine/launch/authority/record_in_file.hpp"
#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe::cli {

namespace {

struct authority_flags {
  std::string listens, announced, record, etcd;
  std::int32_t processes = 0;
  membership::failure_policy policy{};
  double silent_after = 10;  // seconds
  trust_flags trust;
};

void tell_news(const std::string& text) {
  spdlog::warn("{}", text);
}

/// Once, until it is another one.
std::function<void(const std::string&)> tell_changes() {
  return [last = std::make_shared<std::string>()](const std::string& text) {
    if (std::exchange(*last, text) != text)
      spdlog::warn("{}", text);
  };
}

/// The same for all authorities that etcd may elect, as the job's endpoint is
/// named after it.
std::string job_of(const authority_flags& flags) {
  return fmt::format("authority {}",
                     flags.etcd.empty() ? flags.listens : flags.etcd);
}

authority_server_options server_options(const authority_flags& flags) {
  authority_server_options options{
    .processes = flags.processes,
    .job = job_of(flags),
    .shown = credentials_of(flags.trust),
    .silent_after = milliseconds_of(flags.silent_after),
    .lingers = std::chrono::seconds(20),
    .policy = flags.policy,
    .news = tell_news};
  if (!flags.record.empty())
    options.make_store = [path = flags.record,
                          trouble = tell_changes()](auto first) {
      return std::make_unique<record_in_file>(path, std::move(first), trouble);
    };
  if (!flags.etcd.empty())
    options.make_store = [where = parse_etcd(flags.etcd),
                          trouble = tell_changes()](auto first) {
      return std::make_unique<record_in_etcd>(where, std::move(first), trouble);
    };
  return options;
}

void require_record(const std::string& path) {
  record_in_file(path, {}, [](const std::string& why) {
    fail(error_code::io, "--record {}", why);
  }).read();
  const auto folder = std::filesystem::absolute(path).parent_path().string();
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail(error_code::io, "--record {}: no file can be made in {}: {}", path,
         folder, std::generic_category().message(errno));
}

/// Throws for what would only be noticed when the first process comes.
void require_authority(const authority_flags& flags) {
  require_trust(flags.trust);
  choose_trust(parse_endpoint(as_endpoint(flags.listens)),
               credentials_of(flags.trust));
  if (!flags.record.empty() && !flags.etcd.empty())
    fail(error_code::invalid_argument,
         "--record and --etcd contradict each other: the record is in one "
         "place; give one of the two");
  if (!flags.record.empty())
    require_record(flags.record);
  if (!flags.announced.empty() && flags.etcd.empty())
    fail(error_code::invalid_argument,
         "--announce is stored in etcd; give --etcd too, or omit it");
  if (!flags.etcd.empty())
    peer_endpoint(flags.announced.empty() ? flags.listens : flags.announced);
}

/// Whether the job has ended.
bool has_ended(const authority_server& server) {
  const auto state = server.state();
  if (state == authority_state::stopped)
    throw process_end("the job was stopped", 1);
  if (state == authority_state::deposed)
    throw process_end(
      "another authority has stored the job's record, or it was removed; this "
      "one ends, and if there is no other, start it again",
      1);
  return state == authority_state::done;
}

void serve_authority(const authority_flags& flags,
                     const std::function<bool()>& is_told) {
  const authority_server server(parse_endpoint(as_endpoint(flags.listens)),
                                server_options(flags));
  spdlog::info("the authority is at {}", server.where());
  while (!is_told() && !has_ended(server))
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  if (!is_told() && !flags.record.empty())
    std::filesystem::remove(flags.record);
}

void stand_for_election(const authority_flags& flags,
                        const std::function<bool()>& is_told) {
  candidate_options options{
    .etcd = parse_etcd(flags.etcd),
    .where =
      as_endpoint(flags.announced.empty() ? flags.listens : flags.announced),
    .trouble = tell_news};
  options.start = [&flags] {
    spdlog::info("this authority is elected");
    return std::make_unique<authority_server>(
      parse_endpoint(as_endpoint(flags.listens)), server_options(flags));
  };
  authority_candidate candidate(std::move(options));
  const auto is_over = [&] {
    return candidate.has_finished()
           || (candidate.server() && has_ended(*candidate.server()));
  };
  while (!is_told() && !is_over()) {
    candidate.tick();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  if (!is_told() && !candidate.has_finished())
    candidate.finish();
}

void run_authority(const authority_flags& flags) {
  require_authority(flags);
  std::atomic<bool> is_told = false;
  signal_watch signals;
  signals.on_end([&](const signal_request& request) {
    is_told = true;
    return fmt::format(
      "{}: the authority ends; the job goes on, and heals when there is one "
      "again",
      request.name);
  });
  const auto serves = flags.etcd.empty() ? serve_authority : stand_for_election;
  serves(flags, [&] { return is_told.load(); });
  if (is_told)
    throw process_end({}, signals.exit_code());
  spdlog::info("the job is done");
}

}  // namespace

void add_authority_command(CLI::App* command) {
  const auto flags = std::make_shared<authority_flags>();
  add_value(*command, "--listen ADDRESS", flags->listens,
            "where the processes connect: HOST:PORT, or unix:PATH")
    ->required();
  add_value(*command, "--record FILE", flags->record,
            "a file for what the authority has to remember, so that it can be "
            "started again; by default it is lost with the process");
  add_value(*command, "--etcd ADDRESS", flags->etcd,
            "etcd elects one of several authorities, and has the record: "
            "etcd://HOST:2379[,HOST:2379...]/JOB, or etcds:// for TLS; user "
            "and files as etcdctl has them: ETCDCTL_USER, ETCDCTL_CACERT, "
            "ETCDCTL_CERT, ETCDCTL_KEY");
  add_value(*command, "--announce ADDRESS", flags->announced,
            "with --etcd: where the processes reach this one: HOST:PORT")
    ->default_str(description("--listen"));
  add_value(*command, "--processes N", flags->processes,
            "with which the job begins", whole_number(1, 1 << 16))
    ->default_str(description("WORLD_SIZE of the first one"));
  add_failure_flag(*command, flags->policy);
  add_value(*command, "--silent-after S", flags->silent_after,
            "seconds after which a process of which nothing is heard is lost",
            number_above(0, 1e6))
    ->capture_default_str();
  add_trust_flags(*command, flags->trust);
  command->footer(
    "It trains nothing, and ends with the job. While there is none, training "
    "goes on, and losses wait.\n\n"
    "Example:\n"
    "  troupe authority --listen 10.0.0.1:29400 --record authority.json \\\n"
    "    --job-token-file secret\n"
    "  troupe train ... --authority 10.0.0.1:29400 --job-token-file secret");
  command->callback([flags] {
    drop_closed_output();
    run_authority(*flags);
  });
}

}  // namespace troupe::cli
