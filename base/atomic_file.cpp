#include "troupe/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/file_lock.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/base/patient_write.hpp"

namespace troupe {

namespace {

/// Whether the path names something that can't be renamed over: a pipe, a
/// device, a folder.
bool is_special(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

/// Resolves a link to its target, so that the target is replaced.
std::string without_links(std::string path) {
  std::error_code trouble;
  if (!std::filesystem::is_symlink(path, trouble) || is_special(path))
    return path;
  const auto target = std::filesystem::weakly_canonical(path, trouble);
  if (trouble)
    fail_io(path, "created", trouble.message());
  return target.string();
}

constexpr std::string_view temporary_mark = ".troupe-";

/// Opens a new file beside `path`, and tells its name. -1: see errno. Leaves
/// access rights to the system: reading the process's mask would mean changing
/// it for all threads.
int open_beside(const std::string& path, std::string& name) {
  constexpr auto flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int descriptor = -1;
  for (int i = 0; i < 100 && descriptor < 0; ++i) {
    name = temporary_name(path);
    descriptor = ::open(name.c_str(), flags, 0666);
    if (descriptor < 0 && errno != EEXIST)
      break;
    // Another process may be looking whether this one is abandoned.
    if (descriptor >= 0
        && (lock_file(descriptor) == EAGAIN
            || ::access(name.c_str(), F_OK) != 0)) {
      ::close(std::exchange(descriptor, -1));
      ::unlink(name.c_str());
      errno = EEXIST;
    }
  }
  return descriptor;
}

/// Removes the file unless its writer lives, which holds its lock.
void remove_if_abandoned(const std::string& path) {
  const owned_descriptor file(
    ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (lock_file(file.get()) == 0 && is_file_at(file.get(), path))
    ::unlink(path.c_str());
}

}  // namespace

void fail_io(const std::string& path, const char* doing,
             const std::string& reason) {
  fail(error_code::io, "{}: can't be {}: {}", path, doing, reason);
}

bool synchronise_folder(const std::string& path) {
  const auto handle = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    return errno == EACCES || errno == EPERM;
  const auto is_possible = [](int problem) {
    for (const auto each : {EINVAL, ENOSYS, ENOTSUP, EBADF, EPERM, EACCES})
      if (problem == each)
        return false;
    return true;
  };
  const bool done = ::fsync(handle) == 0 || !is_possible(errno);
  const auto reason = errno;
  ::close(handle);
  errno = reason;
  return done;
}

std::string temporary_name(const std::string& path) {
  return fmt::format("{}{}{}", path, temporary_mark, random_digits(1));
}

std::vector<std::string> temporaries_of(const std::string& path) {
  constexpr std::string_view digits = "0123456789abcdef";
  const std::filesystem::path target(path);
  const auto mark = target.filename().string() + std::string(temporary_mark);
  std::vector<std::string> found;
  std::error_code trouble;
  for (std::filesystem::directory_iterator
         at(target.has_parent_path() ? target.parent_path() : ".", trouble),
       end;
       !trouble && at != end; at.increment(trouble)) {
    const auto name = at->path().filename().string();
    if (name.starts_with(mark) && name.size() == mark.size() + 8
        && name.find_first_not_of(digits, mark.size()) == name.npos)
      found.push_back(at->path().string());
  }
  return found;
}

atomic_file::atomic_file(std::string path)
  : path_(without_links(std::move(path))) {
  in_place_ = is_special(path_);
  if (in_place_)
    descriptor_ = open_in_place(path_.c_str());
  else
    descriptor_ = open_beside(path_, temporary_);
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("created");
  }
}

atomic_file::~atomic_file() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
  if (!temporary_.empty())
    ::unlink(temporary_.c_str());
}

void atomic_file::write(std::string_view bytes) {
  if (!write_all(descriptor_, bytes))
    fail("written");
}

// A second descriptor keeps the lock until the file is in place.
void atomic_file::commit() {
  if (!in_place_ && ::fsync(descriptor_) != 0)
    fail("written");
  const auto lock = in_place_ ? -1 : ::fcntl(descriptor_, F_DUPFD_CLOEXEC, 0);
  const bool closed = ::close(std::exchange(descriptor_, -1)) == 0;
  const bool done =
    closed && (in_place_ || ::rename(temporary_.c_str(), path_.c_str()) == 0);
  const auto reason = errno;
  if (lock >= 0)
    ::close(lock);
  errno = reason;
  if (!done)
    fail(closed ? "put in place" : "written");
  temporary_.clear();
  const auto folder = std::filesystem::path(path_).parent_path();
  if (!in_place_ && !synchronise_folder(folder.empty() ? "." : folder))
    fail("put on the disk");
}

void atomic_file::fail(const char* doing) const {
  fail_io(path_, doing, write_problem(errno));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  atomic_file file(path);
  file.write(bytes);
  file.commit();
}

void remove_abandoned_temporaries(const std::string& path) noexcept {
  try {
    for (const auto& name : temporaries_of(without_links(path)))
      remove_if_abandoned(name);
  } catch (...) {  // they are left, then
  }
}

void require_writable(const std::string& path) {
  if (!is_special(path)) {
    atomic_file probe(path);
    return;
  }
  std::error_code trouble;
  if (std::filesystem::is_directory(path, trouble))
    fail_io(path, "written", std::strerror(EISDIR));
  if (::access(path.c_str(), W_OK) != 0)
    fail_io(path, "written", std::strerror(errno));
}

void make_folder(const std::string& path) {
  std::error_code trouble;
  std::filesystem::create_directories(path, trouble);
  if (trouble)
    fail_io(path, "created", trouble.message());
}

void require_writable_folder(const std::string& path) {
  make_folder(path);
  std::error_code trouble;
  if (!std::filesystem::is_directory(path, trouble))
    troupe::fail(error_code::io, "{}: is not a folder", path);
  // Access rights aren't enough: some file systems take no files.
  std::string name;
  const auto target = (std::filesystem::path(path) / "probe").string();
  remove_abandoned_temporaries(target);
  owned_descriptor probe(open_beside(target, name));
  if (probe.get() < 0)
    troupe::fail(error_code::io, "{}: can't create files in this folder: {}",
                 path, write_problem(errno));
  probe = {};  // closed first: some file systems keep open files
  ::unlink(name.c_str());
}

}  // namespace troupe
