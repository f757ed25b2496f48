#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe {

class mesh;

/// Properties that must be equal in all processes, by name: settings, the
/// program's version. Compared before the first step.
using job_description = std::vector<std::pair<std::string, std::string>>;
/// The value of a property that fits whatever it is in process 0.
inline constexpr auto agrees_with_any = "";

/// How tensors travel within a machine. Processes of one machine that were
/// given a TCP rendezvous use TCP.
enum class line_kind : std::uint8_t { socket, shared_memory };

/// How the processes of a job learn where process 0 listens, which takes a free
/// port. All throw `transport`, or `interrupted` if the process is to stop.
struct address_exchange {
  /// An endpoint of TCP: processes listen on the interface of the route to it.
  std::string towards{};
  /// Process 0 calls it.
  std::function<void(const std::string& where)> tell{};
  /// The others call it, each time that the last address leads to nobody.
  std::function<std::string()> ask{};
};

struct job_options {
  launch_environment place{};
  line_kind lines = line_kind::socket;
  /// Address of process 0, `tcp:HOST:PORT` or `unix:PATH`; empty: from the
  /// launcher, or on one machine in a folder of the user's own.
  std::string rendezvous{};
  /// Used instead of an address.
  std::optional<address_exchange> exchange{};
  /// Where this process listens for the others' tensors, `HOST:PORT` (port 0:
  /// any); empty: at its address on the route to process 0.
  std::string listens{};
  /// Where the others reach it, if that differs: behind a relay or an address
  /// translation. `HOST:PORT`.
  std::string announced{};
  credentials shown{};
  /// A name shared by the processes of a machine; empty: the system's.
  std::string machine{};
  job_description description{};
  /// Time limit for all processes to arrive.
  std::chrono::milliseconds patience = std::chrono::seconds(60);
  /// Receives messages: regularly, which processes, or which authority, this
  /// one waits for; and which of these options have no effect.
  std::function<void(const std::string&)> news{};
  std::chrono::milliseconds news_every = std::chrono::seconds(3);
  /// Polled while processes meet; true: this process gives up.
  std::function<bool()> stopped{};
};

/// Meets the other processes of a job: process 0 listens, the others connect
/// and are compared with it; then each connects to every other one. Returns
/// when all are ready. All connections and their thread live as long as the
/// result. Throws `invalid_argument` if the address or the trust is missing,
/// `mismatch` naming the setting in which processes differ, `transport` naming
/// those that have not come in time, `interrupted`.
std::shared_ptr<mesh> join_job(const job_options& options);

}  // namespace troupe
