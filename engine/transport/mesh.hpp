#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/transport/connection.hpp"

namespace troupe {

/// What one connection between two processes is for. Control never waits
/// behind tensors; tensors have a connection for each direction.
enum class line : std::uint8_t { control, outgoing, incoming };

/// Never 0, and not guessed.
std::uint64_t new_run_id();

/// One process of a job. Process 0 leads.
struct job_place {
  std::int32_t process = 0;
  std::int32_t processes = 1;
  std::uint64_t run = 0;  // the same in all processes of a job

  bool leads() const { return process == 0; }
};

/// What came on a connection before its mesh has started.
struct early_frames {
  std::vector<frame> frames;
  std::optional<std::string> lost;  // why it ended
};

/// What a mesh calls, on the loop's thread, one at a time.
struct mesh_events {
  /// A frame with tensors is announced; throws to refuse it.
  std::function<void(std::int32_t from, frame_type, const frame_head&)> admit;
  std::function<void(std::int32_t from, frame)> arrived;
  /// A process is gone, and why; once a process.
  std::function<void(std::int32_t process, const std::string& reason)> lost;
  /// A process that was heard has said nothing for some seconds; 0: it is
  /// heard again.
  std::function<void(std::int32_t process, double seconds)> silent = {};
};

/// How a mesh finds out that others are stopped or cut off.
struct mesh_patience {
  std::chrono::milliseconds heartbeat = std::chrono::seconds(1);
  /// Without a word a process counts as silent: stopped, or very slow.
  std::chrono::milliseconds silence = std::chrono::seconds(5);
  /// A machine that acknowledges nothing for so long is gone.
  std::chrono::milliseconds cut_off = std::chrono::seconds(20);
};

/// All connections of one process of a job to its other processes. Any thread
/// may send.
class mesh {
 public:
  /// The loop outlives the mesh.
  mesh(io_loop& loop, job_place place, const mesh_patience& patience = {});
  ~mesh();
  mesh(const mesh&) = delete;
  mesh& operator=(const mesh&) = delete;

  const job_place& place() const;
  /// Before `start`. On the loop's thread, or with nobody else around; `early`
  /// may grow on that thread until `start`.
  void add(std::int32_t peer, line purpose, connection_pointer with,
           std::shared_ptr<early_frames> early = {});
  void set_run(std::uint64_t run);
  /// By process: what to add to its clock for the leader's, in ns.
  void set_clock_offsets(std::vector<std::int64_t> offsets);
  /// What to add to times of another process for this one's clock, in ns.
  std::int64_t clock_offset(std::int32_t from) const;
  /// Once. Events of what came before are called first.
  void start(mesh_events events);
  /// No more events from here on; returns when none is under way.
  void stop();

  /// To all others, for the leader; to the leader, for them.
  void broadcast(const frame& what);
  void control(std::int32_t to, frame what);
  /// Tensors; the connection is a line of its own.
  void send(std::int32_t to, frame what);
  /// An answer to tensors, on the line on which they came.
  void answer(std::int32_t to, frame what);

  /// From now on `hear` is called by a thread whose `take` or `take_given` has
  /// lasted so long, and again each time that doubles.
  void tell_of_waits(
    std::chrono::milliseconds longer_than,
    std::function<void(std::int32_t from, double seconds)> hear);
  /// A message from the thread that calls to the one that calls `take` there.
  void mail(std::int32_t to, frame what);
  /// The next of a process, waited for. Throws `transport` when it is gone.
  frame take(std::int32_t from);
  /// What each process gives, by process, for the leader; else nothing.
  std::vector<frame> gather(frame mine);
  /// What the leader gives, for all.
  frame share(frame of_leader);

  /// A part of a collective, on the line of tensors, from the thread that calls
  /// to the one that calls `take_given` there, which waits as `take` does.
  void give(std::int32_t to, frame what);
  frame take_given(std::int32_t from);

  /// Bytes sent to and received from a process, all lines together.
  std::int64_t bytes_sent(std::int32_t to) const;
  std::int64_t bytes_received(std::int32_t from) const;

 private:
  struct impl;
  std::shared_ptr<impl> impl_;
};

}  // namespace troupe
