#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "troupe/engine/launch/meeting_point.hpp"
#include "troupe/engine/launch/newcomers.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/engine/transport/stream/acceptor.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"

namespace troupe {

/// A process's connections for tensors, two with each other process: one that
/// it dialled, to send, and one that it accepted. They are unix sockets (or
/// shared memory) if the processes meet over them, or share a machine and can;
/// else TCP. Used on one thread, which runs the executor. The executor's
/// coroutines throw its errors, and must not run once this is destroyed.
class tensor_lines {
 public:
  struct tensor_line {
    std::int32_t process;
    line purpose;
    stream_pointer stream;
  };

  /// Starts to listen. `complete` runs when the last line has come. The options
  /// must outlive this. Throws as `acceptor` does.
  tensor_lines(const boost::asio::any_io_executor& on,
               const job_options& options, const meeting_point& point,
               std::function<boost::asio::awaitable<void>()> complete);

  /// Where the others reach this process.
  const process_address& own() const { return own_; }

  /// Connects to the processes of that run at these addresses.
  void begin(std::uint64_t run, const std::vector<process_address>& all);

  bool are_complete() const {
    return static_cast<std::int32_t>(lines_.size())
           == 2 * (options_.place.processes - 1);
  }
  std::vector<tensor_line> take() { return std::move(lines_); }

 private:
  bool tells_for_machine() const;
  void listen_near();
  std::unique_ptr<acceptor> accept_at(const endpoint& address);
  boost::asio::awaitable<void> go_to(std::int32_t process, endpoint address);
  struct identified_line {
    line_hello hello;
    std::shared_ptr<awaited_stream> from;
    bool is_unix;
  };
  boost::asio::awaitable<void> identify(std::shared_ptr<awaited_stream> from,
                                        bool is_unix);
  /// Once the run is known.
  boost::asio::awaitable<void> take(identified_line which);
  boost::asio::awaitable<void> add(std::int32_t process, line purpose,
                                   stream_pointer stream, bool is_unix);

  boost::asio::any_io_executor on_;
  const job_options& options_;
  std::function<boost::asio::awaitable<void>()> complete_;
  std::uint64_t run_ = 0;
  std::set<std::int32_t> came_in_;
  newcomers newcomers_;
  std::deque<identified_line> early_;  // before the run is known
  std::vector<tensor_line> lines_;
  // These may use the members above, so they come last.
  std::unique_ptr<acceptor> acceptor_, near_acceptor_;
  process_address own_;
};

}  // namespace troupe
