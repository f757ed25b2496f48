#include "troupe/base/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "troupe/base/error.hpp"
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
