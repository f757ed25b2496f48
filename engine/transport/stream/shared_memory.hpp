#pragma once

#include <array>
#include <cstddef>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// Memory and doorbells that two processes share, with one ring each way.
struct shared_memory {
  shared_memory() = default;
  shared_memory(shared_memory&&) = delete;
  ~shared_memory();

  /// Doorbell i rings when something has been written to ring i; the server
  /// writes to ring 0.
  std::array<owned_descriptor, 2> data_doorbells{};
  /// Doorbell i rings when ring i has room again.
  std::array<owned_descriptor, 2> space_doorbells{};
  void* bytes = nullptr;
  std::size_t ring_bytes = 0;

  void* ring(std::size_t index) const;

  /// Makes memory and doorbells and sends them to the other end of a unix
  /// socket. Throws `transport`.
  void make_and_send(int socket, std::size_t bytes_each);
  /// Receives them from there; false if nothing has arrived yet. Throws
  /// `transport` if they are invalid, if the memory could be made smaller, or
  /// if the socket has ended.
  bool receive(int socket);

 private:
  void map(int memory);
};

}  // namespace troupe
