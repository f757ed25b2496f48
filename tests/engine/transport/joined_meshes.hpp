#pragma once

#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "../../expect.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe::testing {

/// The processes of a job as threads of this one, joined by socket pairs.
class joined_meshes {
 public:
  explicit joined_meshes(std::int32_t processes, std::uint64_t run = 7) {
    for (std::int32_t p = 0; p < processes; ++p) {
      loops_.push_back(std::make_unique<io_loop>());
      all.push_back(
        std::make_shared<mesh>(*loops_.back(), job_place{p, processes, run}));
    }
    for (std::int32_t a = 0; a < processes; ++a)
      for (std::int32_t b = 0; b < processes; ++b) {
        if (a == 0 && b > 0)
          join(a, line::control, b, line::control);
        if (a != b)
          join(a, line::outgoing, b, line::incoming);
      }
  }
  ~joined_meshes() {
    // Destroyed at about the same time, as by processes that end together.
    std::vector<std::thread> leaving;
    for (auto& each : all)
      leaving.emplace_back(
        [mine = std::move(each)]() mutable { mine.reset(); });
    for (auto& each : leaving)
      each.join();
  }
  joined_meshes(const joined_meshes&) = delete;
  joined_meshes& operator=(const joined_meshes&) = delete;

 private:
  void join(std::int32_t a, line at_a, std::int32_t b, line at_b) {
    std::array<int, 2> ends{};
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data());
    add(a, b, at_a, ends[0]);
    add(b, a, at_b, ends[1]);
  }
  void add(std::int32_t at, std::int32_t peer, line purpose, int socket) {
    const auto i = static_cast<std::size_t>(at);
    all[i]->add(peer, purpose,
                connection::make(*loops_[i], socket_stream(socket)));
  }

  std::vector<std::unique_ptr<io_loop>> loops_;

 public:
  std::vector<std::shared_ptr<mesh>> all;  // by process
};

/// Runs the same program for each process, the first one in the calling thread;
/// returns the texts of exceptions.
inline std::vector<std::string> in_all(
  joined_meshes& meshes,
  const std::function<void(std::shared_ptr<mesh>)>& run) {
  std::vector<std::string> errors(meshes.all.size());
  const auto run_one = [&](std::size_t p) {
    try {
      run(std::move(meshes.all[p]));
    } catch (const std::exception& reason) {
      errors[p] = reason.what();
    }
  };
  std::vector<std::jthread> processes;
  for (std::size_t p = 1; p < errors.size(); ++p)
    processes.emplace_back(run_one, p);
  run_one(0);
  processes.clear();
  return errors;
}

}  // namespace troupe::testing
