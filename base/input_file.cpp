#include "troupe/base/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
constexpr std::size_t block = std::size_t{1} << 20;

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
                          : "a device or a socket";
}

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

input_file::input_file(std::string path) : path_(std::move(path)) {
  constexpr auto flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
  descriptor_ = owned_descriptor(::open(path_.c_str(), flags));
  struct stat status = {};
  if (descriptor_.get() < 0 || ::fstat(descriptor_.get(), &status) != 0)
    refuse(std::string("can't be read: ") + std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    refuse(std::string("is ") + kind_of(status.st_mode)
           + ", not a regular file");
  mode_ = status.st_mode & 07777U;
  size_ = static_cast<std::size_t>(status.st_size);
}

std::string input_file::read(std::size_t most) {
  std::string bytes;
  for (;;) {
    const auto had = bytes.size();
    bytes.resize(had + std::min(block, most - had));
    const auto count =
      ::read(descriptor_.get(), bytes.data() + had, bytes.size() - had);
    const auto reason = errno;
    bytes.resize(had + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (count < 0 && reason != EINTR)
      refuse(std::string("can't be read: ") + std::strerror(reason));
    if (count == 0)
      return bytes;
  }
}

void input_file::copy(std::size_t first, std::span<std::byte> out) const {
  prefer_large_pages(out);
  while (!out.empty()) {
    const auto got =
      ::pread(descriptor(), out.data(), out.size(), static_cast<off_t>(first));
    if (got < 0 && errno == EINTR)
      continue;
    if (got < 0)
      refuse(std::string("can't be read: ") + std::strerror(errno));
    if (got == 0) {
      require_unchanged();
      refuse("ended while it was being read");
    }
    first += static_cast<std::size_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

void input_file::require_unchanged() const {
  struct stat status = {};
  if (::fstat(descriptor(), &status) != 0 || status.st_nlink == 0)
    refuse(
      "was deleted or replaced while it was being read; start again with a "
      "file that does not change");
  if (static_cast<std::size_t>(status.st_size) < size())
    refuse(
      fmt::format("was shortened from {} to {} bytes while it was being read",
                  size(), status.st_size));
}

void input_file::refuse(const std::string& what) const {
  fail(error_code::io, "{}: {}", printable(path_, 1024), what);
}

std::string read_file(const std::string& path) {
  auto text = input_file(path).read();
  if (text.starts_with(byte_order_mark))
    text.erase(0, byte_order_mark.size());
  return text;
}

}  // namespace troupe
