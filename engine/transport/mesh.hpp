#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/transport/connection.hpp"

namespace troupe {

/// The purpose of a connection between two processes. Control never waits
/// behind tensors; tensors have one connection per direction.
enum class line : std::uint8_t { control, outgoing, incoming };

/// The connection on which frames of a type are sent: those of stages and
/// reducers and the states of ranks on `outgoing`, credits for these on
/// `incoming`. Only process 0 has a control line to each other process.
line line_of(frame_type type);

/// A random id, never 0.
std::uint64_t new_run_id();

/// One process of a job. Process 0 leads.
struct job_place {
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::uint64_t run = 0;  // the same in all processes of a job

  bool leads() const { return process == 0; }
};

/// Callbacks of a mesh, on the loop's thread, one at a time.
struct mesh_events {
  /// A frame with tensors is announced; throw to refuse it.
  std::function<void(std::int32_t sender, frame_type, const frame_head&)> admit;
  std::function<void(std::int32_t sender, frame)> arrived;
  /// A process is lost; called once per process.
  std::function<void(std::int32_t process, const std::string& reason)> lost;
  /// A connected process has sent nothing for some seconds, on all connections
  /// on which it sends, or `only` on one; 0 seconds: it sends again on all.
  std::function<void(std::int32_t process, double seconds,
                     std::optional<line> only)>
    silent = {};
};

/// Limits for detecting stopped or disconnected processes.
struct mesh_patience {
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);
  /// A process that sends nothing for so long is silent: it is stopped or very
  /// slow. If one connection alone is silent, something between the two
  /// processes withholds its bytes.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  /// A machine that acknowledges nothing for so long is lost.
  std::chrono::milliseconds cut_off = std::chrono::seconds(20);
  /// The end of a mesh, once it has sent everything, waits so long for
  /// processes that go on sending.
  std::chrono::milliseconds leave = std::chrono::seconds(10);
};

/// All connections between one process of a job and the others. Any thread may
/// send.
class mesh {
 public:
  /// The loop must outlive the mesh.
  mesh(io_loop& loop, job_place place, const mesh_patience& patience = {});
  /// Waits until all connections have ended, and 2 s at most while no bytes
  /// move.
  ~mesh();
  mesh(const mesh&) = delete;
  mesh& operator=(const mesh&) = delete;

  job_place place() const;
  /// Call before `start`, which begins to read from it.
  void add(std::int32_t peer, line purpose, connection_pointer link);
  /// Sets, by process, the offset from its clock to the leader's, in ns.
  void set_clock_offsets(std::vector<std::int64_t> offsets);
  /// The offset from another process's clock to this one's, in ns.
  std::int64_t clock_offset(std::int32_t process) const;
  /// Call once. Before that nothing arrives: whatever would wait for a message
  /// throws `invalid_argument`.
  void start(mesh_events events);
  /// Replaces the events of a mesh that has started, between two of them; those
  /// of processes that are lost already are called at once.
  void redirect(mesh_events events);
  /// No events are called afterwards; returns once none is running.
  void stop();

  /// Ends all connections at once, after a process was lost: the others then
  /// lose this one, too. Threads that wait here get the error.
  void leave();
  /// Goes on with the connections of another mesh, which was not started: that
  /// of the same process of the job, whose processes have met again. Threads
  /// that use this mesh meanwhile use the connections of before.
  void take_over(std::shared_ptr<mesh> met);

  /// Sends on the line of the frame's type. The receiver gets mail and states
  /// by `receive`, notes by `poll`, and all else by `mesh_events::arrived`.
  /// `run`: the sender's; the frame is dropped if the processes have met again
  /// since, for another run. 0: of any run.
  void send(std::int32_t receiver, frame message, std::uint64_t run = 0);
  /// Sends to all others if this is the leader, else to the leader.
  void broadcast(const frame& message, std::uint64_t run = 0);
  /// Waits for a process's next mail, or state. Throws `transport` if it is
  /// lost.
  frame receive(std::int32_t sender, frame_type type = frame_type::mail);
  /// Returns a process's next note, or none if none has arrived. Never waits.
  std::optional<frame> poll(std::int32_t sender);

  /// Gathers each process's mail, by process, on the leader; empty elsewhere.
  std::vector<frame> gather(frame mail);
  /// Returns the leader's mail on all processes.
  frame share(frame mail);
  /// Returns when all processes of the job have called it. Messages sent before
  /// to or from the leader have arrived by then.
  void barrier();

  /// A thread whose `receive` has waited so long calls `report`, and again each
  /// time that this doubles.
  void report_waits(
    std::chrono::milliseconds longer_than,
    std::function<void(std::int32_t sender, double seconds)> report);
  /// Why a process is lost, in words, if it is.
  std::optional<std::string> lost(std::int32_t process) const;

  /// Waits, at most so long, until a process is lost; returns whether one is.
  bool await_loss(std::chrono::milliseconds longest) const;

  /// Whether a process is silent, as `mesh_patience` has it.
  bool has_silent() const;

  /// The bytes received from a process, on all lines together.
  std::int64_t bytes_received(std::int32_t process) const;

 private:
  struct impl;
  std::shared_ptr<impl> now() const;

  mutable std::mutex mutex_;    // of what follows
  std::shared_ptr<mesh> met_;   // whose connections these are; null: its own
  std::shared_ptr<impl> impl_;  // on whose thread, so it ends first
};

}  // namespace troupe
