#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace troupe {

/// SHA-256 of bytes that come piece by piece. One thread at a time.
class sha256 {
 public:
  sha256();

  void add(std::span<const std::byte> bytes);
  /// In lower-case hexadecimal digits; once.
  std::string digest();

 private:
  std::unique_ptr<evp_md_ctx_st, void (*)(evp_md_ctx_st*)> context_;
};

std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace troupe
