#include "troupe/monitors/append_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "troupe/schedules/error.hpp"

namespace troupe {

namespace {

constexpr auto for_appending =
  O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC;

[[noreturn]] void fail_with(const std::string& path, const char* doing,
                            int reason) {
  fail(error_code::io, "{}: can't be {}: {}", path, doing,
       std::strerror(reason));
}

}  // namespace

append_file::append_file(std::string path)
  : path_(std::move(path)), file_(::open(path_.c_str(), for_appending, 0666)) {
  if (file_ < 0)
    fail_with(path_, "created", errno);
}

append_file::~append_file() {
  ::close(file_);
}

void append_file::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (!put(piece)) {
    const auto reason = errno;
    // Fails for pipes and devices, where nothing can be taken back.
    [[maybe_unused]] const auto taken_back = ::ftruncate(file_, size_);
    fail_with(path_, "written", reason);
  }
  size_ += static_cast<std::int64_t>(piece.size());
}

bool append_file::put(std::string_view piece) const {
  while (!piece.empty()) {
    const auto count = ::write(file_, piece.data(), piece.size());
    if (count < 0 && errno != EINTR)
      return false;
    if (count > 0)
      piece.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

}  // namespace troupe
