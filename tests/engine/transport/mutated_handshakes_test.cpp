#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>

#include <random>

#include "../../open_descriptors.hpp"
#include "../../resident_kib.hpp"
#include "link_ends.hpp"
#include "stream_kinds.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

const std::string tested_token = "a-token-of-the-tests-7f3a";

// The address sanitizer keeps 256 MiB of freed memory, and finds leaks itself.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t growth_kib = 512 * 1024;
#else
constexpr std::size_t growth_kib = 64 * 1024;
#endif

std::string mutated(std::string bytes, std::mt19937& random) {
  for (auto changes = random() % 6; changes > 0; --changes)
    bytes[random() % bytes.size()] = static_cast<char>(random());
  if (random() % 3 == 0)
    bytes.resize(random() % bytes.size());
  for (auto more = random() % 4 == 0 ? random() % 200 : 0; more > 0; --more)
    bytes += static_cast<char>(random());
  return bytes;
}

/// A client that sends `words` and leaves.
void say(io_loop& loop, const trust& by, const std::string& words) {
  const auto ends = unix_sockets();
  link_outcome server;
  ::send(ends[0], words.data(), words.size(), MSG_NOSIGNAL);
  ::shutdown(ends[0], SHUT_WR);
  authenticate(loop, ends[1], link_side::server, by, 60s, server.done(),
               server.failed());
  const auto outcome = server.wait();
  ::close(ends[0]);
  if (outcome.stream || outcome.reason.find(tested_token) != std::string::npos
      || outcome.reason == "nothing was called")
    FAIL("let in, or told too much: " << outcome.reason);
}

void mutate_handshakes(int count) {
  std::mt19937 random(11);
  const temporary_folder folder;
  for (const auto& by : {trust{tls_context::of_token(tested_token)},
                         trust{context_in(folder / "set")}}) {
    const auto words = first_words(by);
    REQUIRE(words.size() > 100);
    io_loop loop;
    say(loop, by, mutated(words, random));
    const auto descriptors = open_descriptors();
    const auto memory = resident_kib();
    for (int i = 0; i < count / 2; ++i)
      say(loop, by, mutated(words, random));
    CHECK(open_descriptors() <= descriptors);
    CHECK(resident_kib() < memory + growth_kib);
  }
}

}  // namespace

TEST_CASE("mutated handshakes admit no peer, and leak nothing") {
  mutate_handshakes(2'000);
}

TEST_CASE("a hundred thousand mutated handshakes", "[.full]") {
  mutate_handshakes(100'000);
}
