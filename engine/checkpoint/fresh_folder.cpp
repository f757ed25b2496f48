#include "troupe/engine/checkpoint/fresh_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

/// The descriptor that holds the lock, or an empty one if there are no locks.
/// None: another process has it, or has removed the folder.
std::optional<owned_descriptor> lock_folder(const std::string& path) {
  owned_descriptor folder(
    ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() >= 0 && ::flock(folder.get(), LOCK_EX | LOCK_NB) == 0)
    return folder;
  if (errno == (folder.get() < 0 ? ENOENT : EWOULDBLOCK))
    return std::nullopt;
  return owned_descriptor{};
}

/// Removes the temporary folders that killed writers of `path` left behind, if
/// possible.
void remove_abandoned(const std::string& path) {
  std::error_code trouble;
  for (const auto& name : temporaries_of(path))
    if (const auto lock = lock_folder(name); lock && lock->get() >= 0)
      fs::remove_all(name, trouble);
}

std::string without_slash(const std::string& path) {
  const fs::path folder(path);
  return (folder.has_filename() ? folder : folder.parent_path()).string();
}

/// Refuses empty folders that a rename can't replace.
void require_replaceable(const std::string& folder) {
  std::error_code trouble;
  const auto refuse = [&](const char* why) {
    fail_io(printable(folder), "replaced by the new folder", why);
  };
  if (fs::is_symlink(fs::symlink_status(folder, trouble)))
    refuse("it is a link; give the folder that it leads to");
  const auto name = fs::path(folder).filename();
  if (name == "." || name == "..")
    refuse("give the folder's name");
  struct stat own {
  }, parent{};
  if (::stat(folder.c_str(), &own) == 0
      && ::stat((folder + "/..").c_str(), &parent) == 0
      && own.st_dev != parent.st_dev)
    refuse("a file system is mounted there; give a folder in it");
}

}  // namespace

void require_free(const std::string& path) {
  std::error_code trouble;
  const auto target = without_slash(path);
  const bool is_there =  // also as a link to nowhere
    fs::exists(fs::symlink_status(target, trouble));
  if (is_there
      && !(fs::is_directory(target, trouble) && fs::is_empty(target, trouble)))
    fail(error_code::io,
         "{}: exists already; move it away, or give another folder",
         printable(path));
  if (is_there)
    require_replaceable(target);
  fresh_folder probe(path);
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
    fail_io(printable(name), "created", trouble.message());
  auto lock = lock_folder(name);
  if (!lock || !fs::exists(name, trouble))
    return false;
  lock_ = std::move(*lock);
  temporary_ = std::move(name);
  return true;
}

fresh_folder::~fresh_folder() {
  std::error_code ignored;
  if (!temporary_.empty())
    fs::remove_all(temporary_, ignored);
}

std::string fresh_folder::file(const std::string& name) const {
  return (fs::path(temporary_) / name).string();
}

void fresh_folder::keep() {
  std::error_code trouble, other_trouble;
  fs::rename(temporary_, path_, trouble);
  if (!trouble) {
    temporary_.clear();
    return;
  }
  // No later writer of this path removes a folder of this name.
  const auto kept = fmt::format("{}.saved-{}", path_, random_digits(1));
  fs::rename(temporary_, kept, other_trouble);
  if (!other_trouble)
    temporary_.clear();
  fail_io(printable(path_), "put in place",
          other_trouble ? trouble.message()
                        : fmt::format("{}; the new folder is {}",
                                      trouble.message(), printable(kept)));
}

}  // namespace troupe
