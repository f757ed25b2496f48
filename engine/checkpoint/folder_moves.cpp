#include "troupe/engine/checkpoint/folder_moves.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/checkpoint/manifest.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

/// False: the file system can't rename this folder.
bool rename_folder(const std::string& from, const std::string& to) {
  std::error_code trouble;
  fs::rename(from, to, trouble);
  if (trouble && trouble != std::errc::cross_device_link)
    fail_io(from, "renamed", trouble.message());
  return !trouble;
}

void remove_manifest_first(const std::string& path) {
  remove_path((fs::path(path) / manifest_name).string());
  remove_path(path);
}

void synchronise_file(const std::string& path) {
  const owned_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0)
    fail_io(path, "written", std::strerror(errno));
}

/// With all that is in it, on the disk.
void copy_folder(const std::string& from, const std::string& to) {
  remove_path(to);
  std::error_code trouble;
  fs::copy(from, to,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks,
           trouble);
  if (trouble)
    fail_io(from, "copied", trouble.message());
  for (fs::recursive_directory_iterator at(to, trouble), end;
       !trouble && at != end; at.increment(trouble))
    if (std::error_code unknown; at->is_regular_file(unknown))
      synchronise_file(at->path().string());
  if (trouble)
    fail_io(to, "read", trouble.message());
  if (!synchronise_folder(to))
    fail_io(to, "synchronised", std::strerror(errno));
}

}  // namespace

void remove_path(const std::string& path) {
  std::error_code trouble;
  fs::remove_all(path, trouble);
  if (trouble)
    fail_io(path, "removed", trouble.message());
}

void move_checkpoint(const std::string& from, const std::string& to) {
  if (rename_folder(from, to))
    return;
  const fs::path folder(from);
  const auto name = folder.filename().string();
  const auto copy = (folder.parent_path()
                     / ((name.starts_with('.') ? "" : ".") + name + ".copy"))
                      .string();
  copy_folder(from, copy);
  std::error_code trouble;
  fs::rename(copy, to, trouble);
  if (trouble)
    fail_io(copy, "renamed", trouble.message());
  remove_manifest_first(from);
}

void remove_checkpoint(const std::string& path, const std::string& hidden) {
  remove_path(hidden);
  remove_manifest_first(rename_folder(path, hidden) ? hidden : path);
}

}  // namespace troupe
