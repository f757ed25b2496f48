#include "troupe/engine/launch/newcomers.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>

#include "troupe/engine/launch/rendezvous_stream.hpp"

namespace troupe {

namespace asio = boost::asio;

asio::awaitable<std::optional<rendezvous_message>> newcomers::hear_any(
  std::shared_ptr<awaited_stream> from, std::uint32_t most_bytes) {
  using namespace asio::experimental::awaitable_operators;
  if (silent_.size() >= most_) {
    silent_.front()->close();
    silent_.pop_front();
  }
  silent_.push_back(from);
  asio::steady_timer timer(co_await asio::this_coro::executor, within_);
  // The race does not wait for a branch that fails, so it must not throw.
  const auto hear_it =
    [&]() -> asio::awaitable<std::optional<rendezvous_message>> {
    try {
      co_return co_await hear(*from, most_bytes);
    } catch (const std::exception&) {  // it has left, or is none of the job's
      co_return std::nullopt;
    }
  };
  auto first = co_await (
    hear_it() || timer.async_wait(asio::as_tuple(asio::use_awaitable)));
  silent_.remove(from);
  if (first.index() == 1)
    co_return std::nullopt;
  co_return std::get<0>(std::move(first));
}

}  // namespace troupe
