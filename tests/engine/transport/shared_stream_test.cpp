#include "troupe/engine/transport/stream/shared_stream.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <random>

#include "stream_kinds.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/byte_ring.hpp"
#include "troupe/engine/transport/stream/shared_memory.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using state = stream_progress::state;

namespace {

bool is_ready(const wait_handle& at, int milliseconds) {
  pollfd waiting{at.descriptor, POLLIN, 0};
  return ::poll(&waiting, 1, milliseconds) == 1;
}

stream_progress write(byte_stream& to, std::string text) {
  const iovec part{text.data(), text.size()};
  return to.write({&part, 1});
}

std::string read(byte_stream& from, state expected = state::moved) {
  std::string text(100, 0);
  const auto progress = from.read(text.data(), text.size());
  CHECK(progress.what == expected);
  text.resize(progress.bytes);
  return text;
}

/// A client's end, and the memory as a malicious peer sees it.
struct beside_liar {
  explicit beside_liar(std::size_t bytes = 4096) {
    const auto ends = unix_sockets();
    socket = ends[1];
    memory.make_and_send(socket, bytes);
    client = shared_stream(socket_stream(ends[0]), link_side::client);
    char byte = 0;
    client->read(&byte, 1);
  }
  ~beside_liar() { ::close(socket); }
  ring_header& ring(std::size_t which) {
    return *static_cast<ring_header*>(memory.ring(which));
  }
  shared_memory memory;
  stream_pointer client;
  int socket = -1;
};

}  // namespace

TEST_CASE("a doorbell rings only for a sleeper") {
  auto [a, b] = shared_pair();
  CHECK(read(*a, state::needs_read).empty());
  write(*b, "one");
  CHECK(read(*a) == "one");
  // The reader is asleep, so the write wakes it.
  CHECK(read(*a, state::needs_read).empty());
  const auto handle = a->handle_to(state::needs_read);
  CHECK_FALSE(is_ready(handle, 0));
  write(*b, "two");
  CHECK(is_ready(handle, 1000));
  CHECK(read(*a) == "two");
  CHECK_FALSE(is_ready(handle, 0));
  // A sleeper with unread bytes is woken immediately.
  write(*b, "three");
  CHECK(is_ready(a->handle_to(state::needs_read), 1000));
  CHECK(read(*a) == "three");
}

TEST_CASE("a writer waits for room, and is woken") {
  auto [a, b] = shared_pair(4096);
  read(*a, state::needs_read);
  CHECK(write(*b, std::string(5000, 'x')).bytes == 4096);
  CHECK(write(*b, "y").what == state::needs_write);
  const auto handle = b->handle_to(state::needs_write);
  CHECK_FALSE(is_ready(handle, 0));
  std::string buffer(4096, 0);
  CHECK(a->read(buffer.data(), 100).bytes == 100);
  CHECK_FALSE(is_ready(handle, 0));  // too little to wake it
  CHECK(a->read(buffer.data(), buffer.size()).bytes == 3996);
  CHECK(is_ready(handle, 1000));
  CHECK(write(*b, "y").what == state::moved);
}

TEST_CASE("what was written before an end is read") {
  auto [a, b] = shared_pair();
  read(*a, state::needs_read);
  write(*b, "last");
  CHECK(b->finish_writing().what == state::moved);
  CHECK(read(*a) == "last");
  CHECK(read(*a, state::ended).empty());
  CHECK(write(*a, "back").what == state::moved);
  CHECK(read(*b) == "back");
}

TEST_CASE("a sleeper notices that the other process has died") {
  const auto ends = unix_sockets();
  const auto child = ::fork();
  if (child == 0) {
    ::close(ends[0]);
    const auto stream =
      shared_stream(socket_stream(ends[1]), link_side::server);
    write(*stream, "words");
    ::kill(::getpid(), SIGKILL);
  }
  ::close(ends[1]);
  const auto stream = shared_stream(socket_stream(ends[0]), link_side::client);
  std::string text;
  for (;;) {
    char byte = 0;
    const auto progress = stream->read(&byte, 1);
    if (progress.what == state::ended)
      break;
    if (progress.what == state::moved)
      text += byte;
    else
      REQUIRE(is_ready(stream->handle_to(progress.what), 60'000));
  }
  CHECK(text == "words");
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("counts that can't be end the stream, and touch nothing") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 200; ++i) {
    beside_liar pair;
    pair.ring(0).written = random() | 0x10000;
    CHECK_THROWS_MATCHES(
      read(*pair.client), error,
      MessageMatches(ContainsSubstring("impossible count of bytes")));
    pair.ring(1).taken = random() | 0x10000;
    CHECK_THROWS_AS(write(*pair.client, "x"), error);
    CHECK_THROWS_AS(pair.client->handle_to(state::needs_write), error);
  }
}

TEST_CASE("a peer that writes beside the memory is refused") {
  beside_liar pair;
  ::send(pair.socket, "x", 1, MSG_NOSIGNAL);
  pair.client->handle_to(state::needs_read);
  CHECK_THROWS_MATCHES(read(*pair.client), error,
                       MessageMatches(ContainsSubstring("beside the shared")));
}

TEST_CASE("memory that could be cut short, or none at all, is refused") {
  auto ends = unix_sockets();
  auto client = shared_stream(socket_stream(ends[0]), link_side::client);
  ::send(ends[1], "TRPM\1\0\0\0\0\20\0\0\0\0\0\0", 16, MSG_NOSIGNAL);
  CHECK_THROWS_MATCHES(read(*client), error,
                       MessageMatches(ContainsSubstring("something else")));
  ::close(ends[1]);

  ends = unix_sockets();
  const auto memory = ::memfd_create("open", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  REQUIRE(::ftruncate(memory, 2 * (4096 + 4096)) == 0);
  const std::array<int, 5> sent{memory, memory, memory, memory, memory};
  std::string text("TRPM\1\0\0\0\0\20\0\0\0\0\0\0", 16);
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(sent))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  auto* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(sent));
  std::memcpy(CMSG_DATA(head), sent.data(), sizeof(sent));
  REQUIRE(::sendmsg(ends[1], &message, 0) == 16);
  client = shared_stream(socket_stream(ends[0]), link_side::client);
  CHECK_THROWS_MATCHES(read(*client), error,
                       MessageMatches(ContainsSubstring("not sealed")));
  ::close(memory);
  ::close(ends[1]);
}
