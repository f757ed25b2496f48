#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// Memory and doorbells that two processes share, with one ring each way.
struct shared_memory {
  shared_memory() = default;
  shared_memory(shared_memory&&) = delete;
  ~shared_memory();

  /// Rings when something has been written to ring i: 0 is the server's.
  std::array<owned_descriptor, 2> data_doorbells{};
  /// ... when there is room again.
  std::array<owned_descriptor, 2> space_doorbells{};
  void* bytes = nullptr;
  std::size_t ring_bytes = 0;

  void* ring(std::size_t which) const;

  /// Makes memory and doorbells and sends them to the other end of a unix
  /// socket. Throws `transport`.
  void make_and_send(int socket, std::size_t bytes_each);
  /// Receives them from there; false if nothing has arrived yet. Throws
  /// `transport` if they are invalid, could be made smaller, or the socket has
  /// ended.
  bool receive(int socket);

 private:
  void map(int memory);
};

}  // namespace troupe
