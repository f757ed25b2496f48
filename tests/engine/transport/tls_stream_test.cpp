#include "troupe/engine/transport/stream/tls_stream.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "stream_kinds.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using state = stream_progress::state;

namespace {

struct raw_pair {
  raw_pair() {
    const auto context = tls_context::of_token("token of a test");
    const auto ends = tcp_sockets();
    client = tls_stream(ends[0], context, link_side::client);
    server = tls_stream(ends[1], context, link_side::server);
    server_socket = ends[1];
  }
  /// Sends a byte in each direction, which completes the handshake.
  void shake() {
    send(*client);
    send(*server);
  }
  void send(byte_stream& from) {
    char byte = 'x';
    const iovec part{&byte, 1};
    auto& to = &from == client.get() ? *server : *client;
    bool sent = false, came = false;
    while (!sent || !came) {
      sent = sent || from.write({&part, 1}).what == state::moved;
      came = came || to.read(&byte, 1).what == state::moved;
    }
  }
  stream_pointer client, server;
  int server_socket = -1;
};

std::string failure_of(byte_stream& from) {
  try {
    char byte = 0;
    while (from.read(&byte, 1).what == state::needs_read) {
      pollfd waiting{from.handle_to(state::needs_read).descriptor, POLLIN, 0};
      if (::poll(&waiting, 1, 10'000) != 1)
        break;
    }
  } catch (const error& reason) {
    return reason.what();
  }
  return "no failure";
}

/// The result of a read that waits.
stream_progress read_whole(byte_stream& from) {
  for (;;) {
    char byte = 0;
    const auto progress = from.read(&byte, 1);
    if (progress.what != state::needs_read)
      return progress;
    pollfd waiting{from.handle_to(state::needs_read).descriptor, POLLIN, 0};
    ::poll(&waiting, 1, 10'000);
  }
}

}  // namespace

TEST_CASE("an end that is said is an end, in each direction alone") {
  raw_pair pair;
  pair.shake();
  CHECK(pair.server->finish_writing().what == state::moved);
  CHECK(read_whole(*pair.client).what == state::ended);
  pair.send(*pair.client);
  CHECK(pair.client->finish_writing().what == state::moved);
  CHECK(read_whole(*pair.server).what == state::ended);
}

TEST_CASE("a cut-off connection is not a regular end") {
  raw_pair pair;
  pair.shake();
  ::shutdown(pair.server_socket, SHUT_RDWR);
  CHECK_THROWS_MATCHES(read_whole(*pair.client), error,
                       MessageMatches(ContainsSubstring("cut off")));
  CHECK_THROWS_AS(read_whole(*pair.client), error);
  CHECK_NOTHROW(pair.client->close());
}

TEST_CASE("bytes that were changed on their way are no wrong token") {
  raw_pair pair;
  pair.shake();
  // As if its own record had been modified.
  const auto record =
    std::string("\x17\x03\x03\x00\x20", 5) + std::string(32, 'x');
  REQUIRE(::send(pair.server_socket, record.data(), record.size(), 0) == 37);
  CHECK_THAT(failure_of(*pair.client),
             ContainsSubstring("what arrived can't be decrypted")
               && ContainsSubstring("the connection was damaged")
               && !ContainsSubstring("token"));
  CHECK_THAT(failure_of(*pair.server),
             ContainsSubstring("the other side can't decrypt what arrived")
               && !ContainsSubstring("token"));
}

TEST_CASE("a server that never speaks leaves a client without a stream") {
  raw_pair pair;
  char byte = 0;
  CHECK(pair.client->read(&byte, 1).what == state::needs_read);
  CHECK_FALSE(pair.client->is_full_duplex());
  pair.server.reset();
  CHECK(read_whole(*pair.client).what == state::ended);
}
