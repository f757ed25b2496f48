#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "troupe/engine/membership/failure_policy.hpp"
#include "troupe/engine/membership/record_store.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/trust/credentials.hpp"

namespace troupe {

struct authority_server_options {
  /// The processes that are to host ranks; the job begins when all have come.
  /// 0: as many as the first process says that there are.
  std::int32_t processes = 0;
  /// More that wait to take the place of lost ones.
  std::int32_t spares = 0;
  std::string job{};  // a name, unique on its machine
  credentials shown{};
  /// A process of which nothing is heard for so long is lost.
  std::chrono::milliseconds silent_after = std::chrono::seconds(10);
  /// How long after a loss it tells the process, which its launcher may start
  /// again, that the job is done meanwhile; so long it is not done itself.
  std::chrono::milliseconds lingers{};
  /// The reaction to a lost process and to a failed op.
  membership::failure_policy policy{};
  /// Where the record is kept; `first` is what to read if nothing was stored.
  /// Another authority can go on from there. Null: in this process's memory.
  std::function<std::unique_ptr<membership::record_store>(
    membership::job_record first)>
    make_store{};
  /// Called with a sentence, on the server's thread: when an epoch begins, why;
  /// when processes are waited for, for which, after 3 s and then less and less
  /// often; and when two processes have one number.
  std::function<void(const std::string&)> news{};
  /// Called for a process that was silent for too long, before the next epoch
  /// begins: it may still hold files and ports that another one needs then,
  /// which waits until this returns. Same thread.
  std::function<void(std::int64_t pid)> given_up{};
};

/// What the end of a process is for the job.
enum class process_loss : std::uint8_t {
  of_nobody,  ///< it has not come
  healed,     ///< the job goes on without it; it may be started again
  stops_job,  ///< the policy does not allow the loss, or the job stops anyhow
};

enum class authority_state : std::uint8_t {
  waiting,  ///< no process has come yet
  deciding,
  done,     ///< the job has ended, and all its processes have
  stopped,  ///< the same, and a failure has ended it
  deposed,  ///< another authority has the record
};

/// The authority of a job that heals (engine/membership/authority.hpp), at an
/// endpoint where the job's processes connect (job_membership), and to which
/// they return when a connection is lost. Any thread.
class authority_server {
 public:
  /// Throws as `acceptor` does.
  authority_server(const endpoint& where, authority_server_options options);
  ~authority_server();
  authority_server(const authority_server&) = delete;
  authority_server& operator=(const authority_server&) = delete;

  /// The endpoint, with the port that was taken.
  std::string where() const;
  authority_state state() const;
  /// The processes that are connected.
  std::int32_t processes() const;

  /// A process of this machine has ended.
  process_loss process_ended(std::int64_t pid);
  /// Why the job was stopped; empty: it was not.
  std::string stop_reason() const;
  /// Whether a process of a job that heals has come.
  bool has_begun() const;
  /// Whether the job can't begin because that process of this machine has not
  /// come, or is silent, and has run for longer than others wait for it.
  bool is_overdue(std::int64_t pid, std::chrono::milliseconds age) const;
  /// Whether the job has had an epoch. Before, it waits for all processes.
  bool has_had_epoch() const;
  /// Whether the job is done, so that the ends of its processes are no losses.
  bool is_done() const;
  /// Whether the process has left the job, which goes on without it, or is
  /// done.
  bool has_left(std::int64_t pid) const;
  /// Whether the process is a member of the last epoch.
  bool has_part(std::int64_t pid) const;

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe
