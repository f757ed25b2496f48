#include "troupe/engine/transport/stream/shared_memory.hpp"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/transport/stream/byte_ring.hpp"

namespace troupe {

namespace {

constexpr std::size_t descriptors = 5;  // the memory, then the doorbells
constexpr std::size_t least_bytes = 4096, most_bytes = std::size_t{1} << 30U;

struct announcement {
  std::array<char, 4> magic = {'T', 'R', 'P', 'M'};
  std::uint32_t version = 1;
  std::uint64_t ring_bytes = 0;
};

std::size_t size_of(std::size_t ring_bytes) {
  return 2 * (ring_header::bytes + ring_bytes);
}

[[noreturn]] void refuse(const char* problem) {
  fail(error_code::transport, "shared memory with the other side: {}", problem);
}

void require(bool success) {
  if (!success)
    refuse(std::strerror(errno));
}

int new_doorbell() {
  const auto doorbell = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  require(doorbell >= 0);
  return doorbell;
}

/// A message with room for the descriptors.
struct packet {
  packet() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
  }
  packet(const packet&) = delete;
  packet& operator=(const packet&) = delete;

  announcement content;
  iovec part{&content, sizeof(content)};
  alignas(
    cmsghdr) std::array<char, CMSG_SPACE(sizeof(int) * descriptors)> control{};
  msghdr message{};
};

std::vector<owned_descriptor> descriptors_of(msghdr& message) {
  std::vector<owned_descriptor> all;
  for (auto* each = CMSG_FIRSTHDR(&message); each != nullptr;
       each = CMSG_NXTHDR(&message, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS)
      continue;
    const auto count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(each) + i * sizeof(int), sizeof(int));
      all.emplace_back(descriptor);
    }
  }
  return all;
}

/// The size must be sealed: an access beyond the file's end kills the process.
void require_sealed(int memory, std::size_t ring_bytes) {
  struct stat status {};
  const auto seals = ::fcntl(memory, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(memory, &status) != 0
      || static_cast<std::size_t>(status.st_size) != size_of(ring_bytes))
    refuse("it is not sealed, or not of the announced size");
}

}  // namespace

shared_memory::~shared_memory() {
  if (bytes != nullptr)
    ::munmap(bytes, size_of(ring_bytes));
}

void* shared_memory::ring(std::size_t index) const {
  return static_cast<char*>(bytes) + index * size_of(ring_bytes) / 2;
}

void shared_memory::map(int memory) {
  auto* mapped = ::mmap(nullptr, size_of(ring_bytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED, memory, 0);
  require(mapped != MAP_FAILED);
  bytes = mapped;
}

void shared_memory::make_and_send(int socket, std::size_t bytes_each) {
  ring_bytes = std::bit_ceil(std::clamp(bytes_each, least_bytes, most_bytes));
  const owned_descriptor memory(
    ::memfd_create("troupe link", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  require(memory.get() >= 0
          && ::ftruncate(memory.get(), static_cast<off_t>(size_of(ring_bytes)))
               == 0
          && ::fcntl(memory.get(), F_ADD_SEALS,
                     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
               == 0);
  map(memory.get());
  std::array<int, descriptors> handles{memory.get()};
  for (std::size_t i = 0; i < 2; ++i) {
    data_doorbells[i] = owned_descriptor(handles[1 + i] = new_doorbell());
    space_doorbells[i] = owned_descriptor(handles[3 + i] = new_doorbell());
  }
  packet out;
  out.content.ring_bytes = ring_bytes;
  auto* head = CMSG_FIRSTHDR(&out.message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(handles));
  std::memcpy(CMSG_DATA(head), handles.data(), sizeof(handles));
  require(::sendmsg(socket, &out.message, MSG_NOSIGNAL | MSG_DONTWAIT)
          == static_cast<ssize_t>(sizeof(out.content)));
}

bool shared_memory::receive(int socket) {
  packet in;
  const auto size =
    ::recvmsg(socket, &in.message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR))
    return false;
  auto handles = descriptors_of(in.message);
  if (size == 0)
    refuse("the other side closed the connection before sending any");
  const announcement expected;
  const auto announced = in.content.ring_bytes;
  if (size != static_cast<ssize_t>(sizeof(in.content))
      || handles.size() != descriptors || in.content.magic != expected.magic
      || in.content.version != expected.version
      || !std::has_single_bit(announced) || announced < least_bytes
      || announced > most_bytes)
    refuse("the other side sent something else; run the same program");
  require_sealed(handles[0].get(), announced);
  ring_bytes = announced;
  map(handles[0].get());
  for (std::size_t i = 0; i < 2; ++i) {
    data_doorbells[i] = std::move(handles[1 + i]);
    space_doorbells[i] = std::move(handles[3 + i]);
  }
  return true;
}

}  // namespace troupe
