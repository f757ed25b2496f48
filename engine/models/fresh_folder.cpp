#include "troupe/engine/models/fresh_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail_on(const std::string& path, const char* doing,
                          const std::error_code& trouble) {
  fail(error_code::io, "{}: can't be {}: {}", printable(path), doing,
       trouble.message());
}

constexpr int has_no_locks = -1, is_locked = -2;

/// A descriptor that holds the lock, or one of the above.
int lock_folder(const std::string& path) {
  const auto folder =
    ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder < 0)
    return errno == ENOENT ? is_locked : has_no_locks;
  if (::flock(folder, LOCK_EX | LOCK_NB) == 0)
    return folder;
  const bool taken = errno == EWOULDBLOCK;
  ::close(folder);
  return taken ? is_locked : has_no_locks;
}

/// Removes the temporary folders that killed writers of `path` left behind, if
/// possible.
void remove_abandoned(const std::string& path) {
  const fs::path target(path);
  std::vector<std::string> found;
  std::error_code trouble;
  for (fs::directory_iterator
         at(target.has_parent_path() ? target.parent_path() : ".", trouble),
       end;
       !trouble && at != end; at.increment(trouble))
    if (is_temporary_of(target.filename(), at->path().filename().string()))
      found.push_back(at->path().string());
  for (const auto& name : found)
    if (const auto lock = lock_folder(name); lock >= 0) {
      fs::remove_all(name, trouble);
      ::close(lock);
    }
}

std::string without_slash(const std::string& path) {
  const fs::path given(path);
  return (given.has_filename() ? given : given.parent_path()).string();
}

}  // namespace

void require_free(const std::string& path) {
  std::error_code trouble;
  const auto target = without_slash(path);
  if (fs::exists(target, trouble)
      && !(fs::is_directory(target, trouble) && fs::is_empty(target, trouble)))
    fail(error_code::io,
         "{}: exists already; move it away, or give another folder",
         printable(path));
  const fresh_folder probe(path);
}

fresh_folder::fresh_folder(const std::string& path)
  : path_(without_slash(path)) {
  std::error_code trouble;
  if (const fs::path target(path_); target.has_parent_path())
    fs::create_directories(target.parent_path(), trouble);
  remove_abandoned(path_);
  while (!create()) {
  }
}

/// Another process may take the folder for an abandoned one, until it is
/// locked. False: it did, and another name is to be tried.
bool fresh_folder::create() {
  std::error_code trouble;
  auto name = temporary_name(path_);
  fs::create_directory(name, trouble);
  if (trouble)
    fail_on(name, "created", trouble);
  lock_ = lock_folder(name);
  if (lock_ == is_locked || !fs::exists(name, trouble)) {
    if (lock_ >= 0)
      ::close(std::exchange(lock_, -1));
    return false;
  }
  temporary_ = std::move(name);
  return true;
}

fresh_folder::~fresh_folder() {
  std::error_code ignored;
  if (!temporary_.empty())
    fs::remove_all(temporary_, ignored);
  if (lock_ >= 0)
    ::close(lock_);
}

std::string fresh_folder::file(const std::string& name) const {
  return (fs::path(temporary_) / name).string();
}

void fresh_folder::keep() {
  std::error_code trouble;
  fs::rename(temporary_, path_, trouble);
  if (trouble)
    fail_on(path_, "put in place", trouble);
  temporary_.clear();
}

}  // namespace troupe
