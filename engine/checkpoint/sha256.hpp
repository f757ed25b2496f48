#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace troupe {

/// SHA-256 of bytes that come piece by piece. One thread at a time.
class sha256 {
 public:
  sha256();
  ~sha256();
  sha256(const sha256&) = delete;
  sha256& operator=(const sha256&) = delete;

  void add(std::span<const std::byte> bytes);
  /// In lower-case hexadecimal digits; once.
  std::string digest();

 private:
  struct state;
  std::unique_ptr<state> state_;
};

std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace troupe
