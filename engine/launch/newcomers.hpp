#pragma once

#include <boost/asio/awaitable.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"

namespace troupe {

/// Connections that are authenticated and have not said yet whose they are:
/// bounded in number and time, as without credentials anybody may open them.
/// Used on one thread; its coroutines must not run once it is destroyed.
class newcomers {
 public:
  /// One more than `most`, and the oldest is closed.
  explicit newcomers(std::size_t most, std::chrono::milliseconds within =
                                         std::chrono::seconds(10))
    : most_(most), within_(within) {}

  /// The first message, with a head of at most so many bytes: none if it does
  /// not come in time, or is another one; then the connection is closed.
  template <class Message>
  boost::asio::awaitable<std::optional<Message>> hear_first(
    std::shared_ptr<awaited_stream> from, std::uint32_t most_bytes) {
    auto said = co_await hear_any(from, most_bytes);
    if (said && std::holds_alternative<Message>(*said))
      co_return std::get<Message>(std::move(*said));
    from->close();
    co_return std::nullopt;
  }

  std::size_t count() const { return silent_.size(); }

 private:
  boost::asio::awaitable<std::optional<rendezvous_message>> hear_any(
    std::shared_ptr<awaited_stream> from, std::uint32_t most_bytes);

  std::size_t most_;
  std::chrono::milliseconds within_;
  std::list<std::shared_ptr<awaited_stream>> silent_;  // the oldest first
};

/// For all processes of a job that come at once, and some strangers.
inline std::size_t most_newcomers(const launch_environment& place) {
  return 64 + static_cast<std::size_t>(place.processes);
}

}  // namespace troupe
