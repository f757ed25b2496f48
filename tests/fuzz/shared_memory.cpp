// The announcement of shared memory: arbitrary bytes with arbitrary
// descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "parse.hpp"
#include "troupe/engine/transport/stream/byte_ring.hpp"
#include "troupe/engine/transport/stream/shared_memory.hpp"

using namespace troupe;

namespace {

/// Two rings of 4 KiB each with their headers, sealed or not, or memory of
/// another size.
owned_descriptor some_memory(unsigned kind) {
  owned_descriptor memory(
    ::memfd_create("fuzzed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto bytes = (kind & 1U) != 0 ? 100 : 2 * (ring_header::bytes + 4096);
  testing::require(::ftruncate(memory.get(), static_cast<off_t>(bytes)) == 0);
  if ((kind & 2U) != 0)
    ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK);
  return memory;
}

void send(int socket, std::string_view bytes, int memory, std::size_t count) {
  constexpr std::size_t most = 8;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * most)> control{};
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (count > 0) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    auto* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (std::size_t i = 0; i < count; ++i)
      std::memcpy(CMSG_DATA(head) + i * sizeof(int), &memory, sizeof(int));
  }
  ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto choice = testing::take_choice(bytes);
    const auto memory = some_memory(choice);
    std::array<int, 2> ends{};
    testing::require(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    const owned_descriptor here(ends[0]), there(ends[1]);
    send(there.get(), bytes, memory.get(), choice / 4 % 8);
    shared_memory receiver;
    receiver.receive(here.get());
  });
}
