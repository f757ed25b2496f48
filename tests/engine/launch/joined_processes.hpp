#pragma once

#include <catch2/catch_test_macros.hpp>

#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "../../free_address.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/mesh.hpp"

namespace troupe::testing {

/// The options of a process whose job runs on one machine.
inline job_options options_of(std::int32_t process, std::int32_t processes,
                              const std::string& rendezvous) {
  job_options options;
  options.place.launcher = "a test";
  options.place.process = process;
  options.place.processes = processes;
  options.place.local_processes = processes;
  options.rendezvous = rendezvous;
  options.patience = std::chrono::seconds(30);
  return options;
}

struct joined {
  std::vector<std::shared_ptr<mesh>> meshes;
  std::vector<std::string> errors;
  std::vector<error_code> codes;  // of those errors
};

/// Joins the processes, each on a thread of its own.
inline joined join_all(const std::vector<job_options>& all) {
  joined result{std::vector<std::shared_ptr<mesh>>(all.size()),
                std::vector<std::string>(all.size()),
                std::vector<error_code>(all.size())};
  std::vector<std::thread> processes;
  for (std::size_t p = 0; p < all.size(); ++p)
    processes.emplace_back([&, p] {
      try {
        result.meshes[p] = join_job(all[p]);
      } catch (const error& reason) {
        result.errors[p] = reason.what();
        result.codes[p] = reason.code();
      }
    });
  for (auto& each : processes)
    each.join();
  return result;
}

/// Every process sends its number to every other one.
inline void check_talk(std::vector<std::shared_ptr<mesh>> meshes) {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::pair<std::int32_t, std::int32_t>> arrived;
  const auto count = static_cast<std::int32_t>(meshes.size());
  for (const auto& each : meshes) {
    mesh_events events;
    events.arrived = [&, here = each->place().process](std::int32_t from,
                                                       frame what) {
      const std::scoped_lock lock(mutex);
      if (what.head == std::to_string(from))
        arrived.emplace(from, here);
      changed.notify_all();
    };
    each->start(std::move(events));
  }
  for (const auto& each : meshes)
    for (std::int32_t p = 0; p < count; ++p)
      if (const auto own = each->place().process; p != own)
        each->send(p, {frame_type::tensors, std::to_string(own), {}});
  std::unique_lock lock(mutex);
  const auto all = static_cast<std::size_t>(count * (count - 1));
  CHECK(changed.wait_for(lock, std::chrono::minutes(1),
                         [&] { return arrived.size() == all; }));
  CHECK(std::ranges::all_of(meshes, [&](const auto& each) {
    return each->place().run == meshes[0]->place().run && each->place().run > 0;
  }));
  lock.unlock();
  std::vector<std::thread> leaving;
  for (auto& each : meshes)
    leaving.emplace_back([mine = std::move(each)]() mutable { mine.reset(); });
  for (auto& each : leaving)
    each.join();
}

inline std::string free_port() {
  return "tcp:" + free_address();
}

}  // namespace troupe::testing
