#include "troupe/engine/launch/meeting_point.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/udp.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "troupe/base/fail.hpp"
#include "troupe/base/fnv_hash.hpp"
#include "troupe/base/names.hpp"
#include "troupe/engine/launch/late_host.hpp"
#include "troupe/engine/transport/own_sockets.hpp"
#include "troupe/engine/transport/stream/listener.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

namespace {

using boost::asio::ip::udp;

/// Agents may serve one job after the other. The key is the same in all
/// attempts of a job, as each machine's agent counts its own restarts.
std::string key_of(const launch_environment& place) {
  return "troupe/meeting/" + place.elastic_run;
}

template <class Use>
auto with_store(const launch_environment& place,
                std::chrono::milliseconds patience, const Use& use) {
  try {
    c10d::TCPStoreOptions options;
    options.port = place.port;
    options.waitWorkers = false;
    options.timeout = patience;
    const auto store = c10::make_intrusive<c10d::TCPStore>(place.host, options);
    return use(*store);
  } catch (const std::exception& reason) {
    const std::string text = reason.what();
    fail(error_code::transport,
         "the store of torchrun's agent at {}:{} can't be used for the "
         "rendezvous: {}; give --rendezvous HOST:PORT instead",
         place.host, place.port, text.substr(0, text.find('\n')));
  }
}

/// A hash, as socket paths must be short.
std::string short_name(const std::string& text) {
  fnv_hash hash;
  hash.add(text);
  return fmt::format("{:016x}", hash.value());
}

std::string job_name(const launch_environment& place) {
  return short_name(fmt::format("{} {} {} {}", place.launcher, place.host,
                                place.port, place.job));
}

/// Unique among this machine's sockets: processes in containers may share a
/// process id.
std::string own_suffix() {
  return fmt::format("-{}-{}", ::getpid(), random_digits(1));
}

/// Identifies processes that can meet in a folder: the running system, its
/// name, its clock, its network (hosts simulated by namespaces differ), and the
/// folder at that path. Empty if the system hides it.
std::string machine_name(const std::string& folder) {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  using file_status = struct stat;
  file_status network{}, time{}, found{};
  if (boot.empty() || ::stat("/proc/self/ns/net", &network) != 0
      || ::stat(folder.c_str(), &found) != 0)
    return {};
  ::stat("/proc/self/ns/time", &time);  // older systems have but one
  return short_name(fmt::format("{} {} {} {} {} {} {}", boot, host_name(),
                                time.st_ino, network.st_ino, found.st_dev,
                                found.st_ino, folder));
}

/// This machine's address on the route to another one; sends nothing.
std::string address_towards(const endpoint& there) {
  const auto target = addresses_of(there).front();
  udp::endpoint to;
  std::memcpy(to.data(), target.get(), target.size);
  boost::asio::io_context here;
  udp::socket probe(here);
  boost::system::error_code trouble;
  probe.connect(to, trouble);
  if (trouble)
    fail(error_code::transport, "this machine has no route to {}",
         to_text(there));
  const auto own = probe.local_endpoint().address();
  return own.is_v6() ? fmt::format("[{}]", own.to_string()) : own.to_string();
}

/// Waits for the host's address. A host may resolve its own name to a loopback
/// address (Debian does so): others could not connect, and the trust would
/// differ. A loopback address given explicitly is accepted.
void require_reachable(const job_options& options, const std::string& where) {
  const auto address = peer_endpoint(where);
  wait_for_host(options, address);
  const bool is_own =
    options.place.is_one_machine() || names_loopback(address.host);
  if (!is_own && is_loopback(addresses_of(address).front()))
    fail(error_code::invalid_argument,
         "{} is a loopback address of this machine ({}), which other machines "
         "can't reach; give --rendezvous HOST:PORT with an IP address of "
         "process 0's machine",
         address.host, host_name());
}

meeting_point over_tcp(const job_options& options, const std::string& where,
                       const std::string& known_by) {
  choose_trust(parse_endpoint(where), options.shown);  // refuses this address
  meeting_point point{where, {}, {}, known_by};
  point.own_lines = options.listens.empty() ? fmt::format(
                      "tcp:{}:0", address_towards(parse_endpoint(where)))
                                            : as_endpoint(options.listens);
  if (!options.announced.empty())
    point.announced = to_text(peer_endpoint(options.announced));
  return point;
}

void require_no_lines_of_tcp(const job_options& options) {
  if (!options.listens.empty() || !options.announced.empty())
    fail(error_code::invalid_argument,
         "--listen and --announce require a rendezvous over TCP; give "
         "--rendezvous HOST:PORT too, or omit them");
}

meeting_point by_exchange(const job_options& options,
                          const address_exchange& through,
                          const std::string& known_by) {
  if (options.place.process != 0) {
    auto point = over_tcp(options, through.ask(), known_by);
    point.ask = through.ask;
    return point;
  }
  auto where = parse_endpoint(through.towards);
  if (!options.listens.empty())
    where = parse_endpoint(as_endpoint(options.listens));
  else
    where.host = address_towards(where);
  where.port = 0;
  auto point = over_tcp(options, to_text(where), known_by);
  point.tell = through.tell;
  return point;
}

/// MASTER_PORT is used by the agent's store, which gives another address.
address_exchange through_agent_store(const job_options& options,
                                     const std::string& store) {
  const auto& place = options.place;
  const auto patience = options.patience;
  return {store,
          [place, patience](const std::string& where) {
            tell_agent_store(place, where, patience);
          },
          [place, patience] { return ask_agent_store(place, patience); }};
}

meeting_point in_own_folder(const launch_environment& place) {
  const auto job = job_name(place);
  return {own_socket("job-" + job),
          own_socket("job-" + job + own_suffix()),
          {},
          place.named_by.empty() ? "user" : place.named_by + " and user"};
}

/// Removes sockets that killed processes of earlier jobs left there.
void remove_dead_lines(const std::string& path) {
  const std::filesystem::path meeting(path);
  const auto folder = meeting.parent_path();
  remove_dead_sockets(folder.empty() ? "." : folder.string(),
                      meeting.filename().string() + "-", {});
}

}  // namespace

std::string as_endpoint(const std::string& text) {
  return text.starts_with("tcp:") || text.starts_with("unix:") ? text
                                                               : "tcp:" + text;
}

endpoint peer_endpoint(const std::string& text) {
  auto result = parse_endpoint(as_endpoint(text));
  if (!result.is_unix && result.port == 0)
    fail(error_code::invalid_argument,
         "{}: other processes can't connect to port 0; give another one", text);
  return result;
}

namespace {

meeting_point place_of(const job_options& options) {
  const auto& place = options.place;
  if (options.exchange)
    return by_exchange(options, *options.exchange, "authority");
  const auto rendezvous = as_endpoint(options.rendezvous);
  if (rendezvous.starts_with("unix:")) {
    require_no_lines_of_tcp(options);
    const auto path = parse_endpoint(rendezvous).path;
    remove_dead_lines(path);
    return {rendezvous, "unix:" + path + own_suffix(), {}, "--rendezvous"};
  }
  if (!options.rendezvous.empty()) {
    require_reachable(options, rendezvous);
    return over_tcp(options, rendezvous, "--rendezvous");
  }
  if (place.is_one_machine()) {
    require_no_lines_of_tcp(options);
    return in_own_folder(place);
  }
  if (place.host.empty() || place.port == 0)
    fail(error_code::invalid_argument,
         "{} does not give the address of process 0 of the {} processes; give "
         "--rendezvous HOST:PORT of the first machine, or set MASTER_ADDR and "
         "MASTER_PORT",
         place.launcher, place.processes);
  const auto there = fmt::format("tcp:{}:{}", place.host, place.port);
  require_reachable(options, there);
  return place.agent_store ? by_exchange(
           options, through_agent_store(options, there), "agent of torchrun")
                           : over_tcp(options, there, place.said_by);
}

}  // namespace

meeting_point meeting_point_of(const job_options& options) {
  auto point = place_of(options);
  point.if_alone = options.place.if_alone;
  if (options.rendezvous.empty())
    point.if_alone += options.place.if_no_address;
  return point;
}

std::optional<near_point> near_point_of(const job_options& options) {
  const auto& place = options.place;
  if (place.local_processes == 1 || place.is_one_machine())
    return {};
  const auto where = own_socket("job-" + job_name(place) + own_suffix());
  const auto path = parse_endpoint(where).path;
  const auto machine = options.machine.empty()
                         ? machine_name(path.substr(0, path.rfind('/')))
                         : options.machine;
  if (machine.empty())
    return {};
  return near_point{where, machine};
}

void tell_agent_store(const launch_environment& place, const std::string& where,
                      std::chrono::milliseconds patience) {
  with_store(place, patience,
             [&](c10d::Store& store) { store.set(key_of(place), where); });
}

std::string ask_agent_store(const launch_environment& place,
                            std::chrono::milliseconds patience) {
  return with_store(place, patience, [&](c10d::Store& store) {
    return store.get_to_str(key_of(place));
  });
}

}  // namespace troupe
