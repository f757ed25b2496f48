#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/launch/job_description.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/engine/transport/trust.hpp"

namespace troupe {

/// How tensors travel within a machine. Those of one machine that were told to
/// meet over TCP are joined by TCP.
enum class line_kind : std::uint8_t { socket, shared_memory };

struct job_options {
  launch_environment place;
  line_kind lines = line_kind::socket;
  /// Where process 0 is met, `tcp:HOST:PORT` or `unix:PATH`; empty: as the
  /// launcher says, or on one machine in a folder of the user's own.
  std::string rendezvous{};
  /// Where this process listens for the tensors of the others, `HOST:PORT`
  /// (port 0: any); empty: at its address on the way to process 0.
  std::string listens{};
  /// Where the others reach it, if that is elsewhere: behind a relay or an
  /// address translation. `HOST:PORT`.
  std::string announced{};
  credentials shown{};
  /// What processes that share a machine have in common; empty: what the
  /// system says.
  std::string machine{};
  job_description description{};
  /// For all processes to come.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// Hears whom this process waits for, every now and then while it does, and
  /// what of these options has no effect.
  std::function<void(const std::string&)> news{};
  std::chrono::milliseconds news_every = std::chrono::seconds(3);
  /// Looked at while processes meet; true: this process gives up.
  std::function<bool()> stopped{};
};

/// Meets the other processes of a job: process 0 listens, the others come to
/// it and are compared with it; then each connects to every other one. Returns
/// when all are ready. All connections and their thread live as long as what
/// is returned. Throws `invalid_argument` where the place or the trust is
/// missing, `mismatch` naming the setting in which processes differ,
/// `transport` naming those that have not come in time, `interrupted`.
std::shared_ptr<mesh> join_job(const job_options& options);

}  // namespace troupe
