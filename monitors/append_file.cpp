#include "troupe/monitors/append_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/patient_write.hpp"

namespace troupe {

namespace {

bool is_regular(int file) {
  struct stat status = {};
  return ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
}

/// -1, with `errno`, where it can't be opened.
int open_for_appending(const char* path, bool continues) {
  struct stat status = {};
  if (::stat(path, &status) == 0 && !S_ISREG(status.st_mode))
    return open_in_place(path);
  return ::open(
    path, (continues ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC,
    0666);
}

/// The bytes before the first line of a later step.
std::int64_t bytes_to_keep(const owned_descriptor& file,
                           const continued_lines& kept,
                           const std::string& path) {
  std::string rest;
  std::array<char, 1 << 16> chunk{};
  for (std::int64_t begin = 0;;) {
    const auto count = ::pread(file.get(), chunk.data(), chunk.size(),
                               begin + static_cast<std::int64_t>(rest.size()));
    if (count < 0)
      fail_io(path, "read", std::strerror(errno));
    if (count == 0)
      return begin;  // an incomplete line is dropped
    rest.append(chunk.data(), static_cast<std::size_t>(count));
    std::size_t next = 0;
    for (auto end = rest.find('\n'); end != std::string::npos;
         end = rest.find('\n', next)) {
      const auto line = std::string_view(rest).substr(next, end - next);
      if (const auto step = kept.step_of(line); step && *step > kept.step)
        return begin + static_cast<std::int64_t>(next);
      next = end + 1;
    }
    rest.erase(0, next);
    begin += static_cast<std::int64_t>(next);
  }
}

}  // namespace

continued_lines lines_with_step(std::int64_t resumed, std::string key) {
  return {resumed,
          [key = std::move(key)](
            std::string_view line) -> std::optional<std::int64_t> {
            const auto at = line.find(key);
            if (at == std::string_view::npos)
              return std::nullopt;
            const auto* begin = line.data() + at + key.size();
            std::int64_t step = 0;
            const auto [end, problem] =
              std::from_chars(begin, line.data() + line.size(), step);
            return problem == std::errc{} ? std::optional(step) : std::nullopt;
          }};
}

append_file::append_file(std::string path, const continued_lines& kept)
  : path_(std::move(path)),
    file_(open_for_appending(path_.c_str(), kept.step > 0)) {
  const auto file = file_.get();
  if (file < 0)
    fail_io(path_, "created", write_problem(errno));
  if (!is_regular(file))
    return;
  // File systems without locks pass.
  if (::flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(error_code::io,
         "{}: another job writes this file; give this job its own file", path_);
  if (kept.step > 0)
    size_ = bytes_to_keep(file_, kept, path_);
  if (::ftruncate(file, size_) != 0)
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

void take_over_file(const std::string& path) {
  const owned_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || !is_regular(file.get())
      || ::flock(file.get(), LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
    return;
  atomic_file copy(path);
  std::array<char, 1 << 16> chunk{};
  while (const auto count = ::read(file.get(), chunk.data(), chunk.size())) {
    if (count < 0)
      fail_io(path, "read", std::strerror(errno));
    copy.write({chunk.data(), static_cast<std::size_t>(count)});
  }
  copy.commit();
}

}  // namespace troupe
