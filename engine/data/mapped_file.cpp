#include "troupe/engine/data/mapped_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "troupe/base/fnv_hash.hpp"

namespace troupe {

mapped_file::mapped_file(std::string path) : file_(std::move(path)) {
  if (file_.size() == 0)
    return;
  void* mapped = ::mmap(nullptr, file_.size(), PROT_READ, MAP_PRIVATE,
                        file_.descriptor(), 0);
  if (mapped == MAP_FAILED)
    file_.refuse(std::string("can't be mapped: ") + std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

mapped_file::mapped_file(mapped_file&& other) noexcept
  : file_(std::move(other.file_)), data_(std::exchange(other.data_, nullptr)) {}

mapped_file::~mapped_file() {
  if (data_)
    ::munmap(const_cast<std::byte*>(data_), file_.size());
}

void mapped_file::require_unchanged() const {
  file_.require_unchanged();
}

std::string content_text(const std::string& path) {
  constexpr std::size_t block = 64 * 1024, most_blocks = 256;
  const input_file file(path);
  const auto size = file.size();
  const auto blocks = std::min((size + block - 1) / block, most_blocks);
  std::string bytes;
  fnv_hash hash;
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto begin =
      blocks < most_blocks ? i * block : (size - block) / (blocks - 1) * i;
    bytes.resize(std::min(block, size - begin));
    file.copy(begin, std::as_writable_bytes(std::span(bytes)));
    hash.add(bytes);
  }
  return fmt::format("{} bytes with hash {:016x}", size, hash.value());
}

}  // namespace troupe
