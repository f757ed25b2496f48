#include "troupe/monitors/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "troupe/base/error.hpp"
#include "troupe/base/patient_write.hpp"

namespace troupe {

namespace {

[[noreturn]] void fail_with(const std::string& path, const char* doing,
                            int reason) {
  fail(error_code::io, "{}: can't be {}: {}", path, doing,
       write_problem(reason));
}

bool is_regular(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

/// -1, with `errno`, where it can't be opened.
int open_for_appending(const char* path) {
  struct stat status = {};
  if (::stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return open_in_place(path);
  return ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

}  // namespace

append_file::append_file(std::string path, bool keeps)
  : path_(std::move(path)), file_(open_for_appending(path_.c_str())) {
  if (file_ < 0)
    fail_with(path_, "created", errno);
  if (!is_regular(file_))
    return;
  // File systems without locks pass.
  const bool taken =
    ::flock(file_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!taken && keeps) {
    size_ = std::max<std::int64_t>(::lseek(file_, 0, SEEK_END), 0);
    return;
  }
  if (!taken && ::ftruncate(file_, 0) == 0)
    return;
  const auto reason = errno;
  ::close(file_);
  if (taken)
    fail(error_code::io,
         "{}: another job writes this file; give this job its own file", path_);
  fail_with(path_, "created", reason);
}

append_file::~append_file() {
  ::close(file_);
}

void append_file::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (!write_all(file_, piece)) {
    const auto reason = errno;
    // Fails for pipes and devices, where nothing can be taken back.
    [[maybe_unused]] const auto taken_back = ::ftruncate(file_, size_);
    fail_with(path_, "written", reason);
  }
  size_ += static_cast<std::int64_t>(piece.size());
}

}  // namespace troupe
