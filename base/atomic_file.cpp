#include "troupe/base/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <random>
#include <utility>

#include "troupe/base/error.hpp"
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
    troupe::fail(error_code::io, "{}: can't be created: {}", path,
                 trouble.message());
  return target.string();
}

std::string random_suffix() {
  std::random_device random;
  return fmt::format(".{:08x}", random());
}

/// A rename is durable once its folder is synchronised. Skipped where the
/// folder can't be read or its file system doesn't support this.
bool synchronise_folder_of(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path();
  const auto handle = ::open(folder.empty() ? "." : folder.c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (handle < 0)
    return true;
  const bool done = ::fsync(handle) == 0 || errno != EIO;
  const auto reason = errno;
  ::close(handle);
  errno = reason;
  return done;
}

}  // namespace

atomic_file::atomic_file(std::string path)
  : path_(without_links(std::move(path))) {
  in_place_ = is_special(path_);
  if (in_place_)
    descriptor_ = open_in_place(path_.c_str());
  else
    create();
  if (descriptor_ < 0) {
    temporary_.clear();
    fail("created");
  }
}

/// Leaves access rights to the system: reading the process's mask would mean
/// changing it for all threads.
void atomic_file::create() {
  for (int i = 0; i < 100 && descriptor_ < 0; ++i) {
    temporary_ = path_ + random_suffix();
    descriptor_ =
      ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0 && errno != EEXIST)
      return;
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

void atomic_file::commit() {
  if (!in_place_ && ::fsync(descriptor_) != 0)
    fail("written");
  if (::close(std::exchange(descriptor_, -1)) != 0)
    fail("written");
  if (!in_place_ && ::rename(temporary_.c_str(), path_.c_str()) != 0)
    fail("put in place");
  temporary_.clear();
  if (!in_place_ && !synchronise_folder_of(path_))
    fail("put on the disk");
}

void atomic_file::fail(const char* doing) const {
  troupe::fail(error_code::io, "{}: can't be {}: {}", path_, doing,
               write_problem(errno));
}

void write_file_atomically(const std::string& path, std::string_view bytes) {
  atomic_file file(path);
  file.write(bytes);
  file.commit();
}

void require_writable(const std::string& path) {
  if (!is_special(path)) {
    atomic_file probe(path);
    return;
  }
  if (::access(path.c_str(), W_OK) != 0 || std::filesystem::is_directory(path))
    troupe::fail(error_code::io, "{}: can't be written", path);
}

void require_writable_folder(const std::string& path) {
  std::error_code trouble;
  std::filesystem::create_directories(path, trouble);
  if (trouble)
    troupe::fail(error_code::io, "{}: can't be created: {}", path,
                 trouble.message());
  if (!std::filesystem::is_directory(path))
    troupe::fail(error_code::io, "{}: is not a folder", path);
  // Access rights aren't enough: some file systems take no files.
  try {
    atomic_file probe((std::filesystem::path(path) / "probe").string());
  } catch (const error& reason) {
    const std::string text = reason.what();  // names the probe
    troupe::fail(error_code::io, "{}: can't create files in this folder: {}",
                 path, text.substr(text.rfind(": ") + 2));
  }
}

}  // namespace troupe
