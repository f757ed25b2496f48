#include "troupe/monitors/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/patient_write.hpp"

namespace troupe {

namespace {

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
  const auto file = file_.get();
  if (file < 0)
    fail_io(path_, "created", write_problem(errno));
  if (!is_regular(file))
    return;
  // File systems without locks pass.
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(error_code::io,
         "{}: another job writes this file; give this job its own file", path_);
  if (keeps)
    size_ = std::max<std::int64_t>(::lseek(file, 0, SEEK_END), 0);
  else if (::ftruncate(file, 0) != 0)
    fail_io(path_, "created", write_problem(errno));
}

void append_file::write(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (!write_all(file_.get(), piece)) {
    const auto reason = errno;
    // Fails for pipes and devices, where nothing can be taken back.
    [[maybe_unused]] const auto taken_back = ::ftruncate(file_.get(), size_);
    fail_io(path_, "written", write_problem(reason));
  }
  size_ += static_cast<std::int64_t>(piece.size());
}

}  // namespace troupe
