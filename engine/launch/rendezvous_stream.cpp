#include "troupe/engine/launch/rendezvous_stream.hpp"

#include <algorithm>
#include <boost/asio/use_awaitable.hpp>
#include <string>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/stream/dial.hpp"

namespace troupe {

namespace asio = boost::asio;

asio::awaitable<stream_pointer> reach(std::int32_t process,
                                      const endpoint& address,
                                      const credentials& shown,
                                      std::chrono::milliseconds patience) {
  try {
    co_return co_await dial(address, shown, patience);
  } catch (const error& reason) {
    fail(reason.code(), "process {} can't be reached: {}", process,
         reason.what());
  }
}

asio::awaitable<void> say(awaited_stream& to, rendezvous_message what) {
  const auto bytes = frame_start(to_frame(what));
  const bool said = co_await to.write_all(bytes);
  if (!said)
    fail(error_code::transport, "the other side closed the connection");
}

asio::awaitable<rendezvous_message> hear(awaited_stream& from,
                                         std::uint32_t most_bytes) {
  const auto fill = [&from](std::string& bytes) -> asio::awaitable<void> {
    const bool heard = co_await from.read_all(bytes);
    if (!heard)
      fail(error_code::transport, "its program has ended");
  };
  std::string start(frame_header::bytes, '\0');
  co_await fill(start);
  const auto header =
    read_frame_header(start, {.head_bytes = most_bytes, .tensor_bytes = 0});
  constexpr std::size_t piece_bytes = 16 * 1024;
  std::string rest, piece;
  while (rest.size() < header.head_bytes) {
    piece.resize(std::min(piece_bytes, header.head_bytes - rest.size()));
    co_await fill(piece);
    rest += piece;
  }
  auto head = read_frame_head(header, rest);
  const frame whole{header.type, std::move(head.head), allocate(head.tensors)};
  co_return read_rendezvous(whole);
}

}  // namespace troupe
