#pragma once

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "../../temporary_folder.hpp"
#include "joined_processes.hpp"
#include "troupe_paths.hpp"

namespace troupe::testing {

/// Servers of etcd on this machine.
class etcd_cluster {
 public:
  static bool is_installed() { return std::filesystem::exists(program()); }

  explicit etcd_cluster(int servers) : pids_(servers, 0) {
    for (int i = 0; i < 2 * servers; ++i)
      ports_.push_back(free_port().substr(std::string("tcp:").size()));
    for (int i = 0; i < servers; ++i)
      start(i);
  }
  ~etcd_cluster() {
    for (int i = 0; i < servers(); ++i)
      kill(i);
  }
  etcd_cluster(const etcd_cluster&) = delete;
  etcd_cluster& operator=(const etcd_cluster&) = delete;

  int servers() const { return static_cast<int>(pids_.size()); }
  /// For `parse_etcd`.
  std::string address(const std::string& job) const {
    std::string list;
    for (int i = 0; i < servers(); ++i)
      list += (i == 0 ? "" : ",") + ports_[index(2 * i)];
    return fmt::format("etcd://{}/{}", list, job);
  }

  void start(int server) {
    std::string cluster;
    for (int i = 0; i < servers(); ++i)
      cluster += fmt::format("{}s{}={}", i == 0 ? "" : ",", i, peer_url(i));
    std::vector<std::string> arguments{program(),
                                       "--name",
                                       fmt::format("s{}", server),
                                       "--data-dir",
                                       folder_ / fmt::format("s{}", server),
                                       "--listen-client-urls",
                                       client_url(server),
                                       "--advertise-client-urls",
                                       client_url(server),
                                       "--listen-peer-urls",
                                       peer_url(server),
                                       "--initial-advertise-peer-urls",
                                       peer_url(server),
                                       "--initial-cluster",
                                       cluster,
                                       "--log-level",
                                       "fatal"};
    std::vector<char*> pointers;
    for (auto& each : arguments)
      pointers.push_back(each.data());
    pointers.push_back(nullptr);
    if (::posix_spawn(&pids_[index(server)], arguments.front().c_str(), nullptr,
                      nullptr, pointers.data(), environ)
        != 0)
      throw std::runtime_error("etcd can't be started");
  }

  void kill(int server) {
    auto& pid = pids_[index(server)];
    if (pid == 0)
      return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }

 private:
  /// That of scripts/setup, or the system's.
  static std::string program() {
    const std::string own = TROUPE_READERS "/bin/etcd";
    return std::filesystem::exists(own) ? own : "/usr/bin/etcd";
  }

  static std::size_t index(int server) {
    return static_cast<std::size_t>(server);
  }
  std::string client_url(int server) const {
    return "http://" + ports_[index(2 * server)];
  }
  std::string peer_url(int server) const {
    return "http://" + ports_[index(2 * server + 1)];
  }

  temporary_folder folder_;
  std::vector<pid_t> pids_;
  std::vector<std::string> ports_;  // HOST:PORT, for clients and for servers
};

}  // namespace troupe::testing
