#include "troupe/engine/data/mapped_file.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
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

namespace {

/// Lets the system back large memory with large pages: filling 2 GiB of fresh
/// memory in pages of 4 KiB costs half a million page faults, which take longer
/// than the copy. A system without large pages ignores it.
void prefer_large_pages(std::span<std::byte> memory) {
  constexpr std::uintptr_t large = 1 << 21;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto first = (begin + large - 1) / large * large;
  const auto last = (begin + memory.size()) / large * large;
  if (first < last)
    ::madvise(memory.data() + (first - begin), last - first, MADV_HUGEPAGE);
}

}  // namespace

void mapped_file::copy(std::size_t first, std::span<std::byte> out) const {
  prefer_large_pages(out);
  while (!out.empty()) {
    const auto got = ::pread(file_.descriptor(), out.data(), out.size(),
                             static_cast<off_t>(first));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      file_.refuse(std::string("can't be read: ") + std::strerror(errno));
    if (got == 0) {
      require_unchanged();
      file_.refuse("ended while it was being read");
    }
    first += static_cast<std::size_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void mapped_file::require_unchanged() const {
  struct stat status = {};
  if (::fstat(file_.descriptor(), &status) != 0 || status.st_nlink == 0)
    file_.refuse(
      "was deleted or replaced while it was being read; start again with a "
      "file that does not change");
  if (static_cast<std::size_t>(status.st_size) < file_.size())
    file_.refuse(
      fmt::format("was shortened from {} to {} bytes while it was being read",
                  file_.size(), status.st_size));
}

std::string content_text(const std::string& path) {
  constexpr std::size_t block = 64 * 1024, most_blocks = 256;
  const mapped_file file(path);
  const auto bytes = file.bytes();
  const auto blocks = std::min((bytes.size() + block - 1) / block, most_blocks);
  fnv_hash hash;
  for (std::size_t i = 0; i < blocks; ++i) {
    const auto begin = blocks < most_blocks
                         ? i * block
                         : (bytes.size() - block) / (blocks - 1) * i;
    const auto part =
      bytes.subspan(begin, std::min(block, bytes.size() - begin));
    hash.add({reinterpret_cast<const char*>(part.data()), part.size()});
  }
  return fmt::format("{} bytes with hash {:016x}", bytes.size(), hash.value());
}

}  // namespace troupe
