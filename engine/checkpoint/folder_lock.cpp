#include "troupe/engine/checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/file_lock.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

std::string text_of(int file) {
  std::array<char, 512> text{};
  const auto size = ::pread(file, text.data(), text.size() - 1, 0);
  return size > 0
           ? printable(std::string(text.data(), static_cast<std::size_t>(size)))
           : "another process";
}

std::string lock_path(const std::string& folder) {
  return (std::filesystem::path(folder) / ".lock").string();
}

}  // namespace

folder_lock::folder_lock(const std::string& folder)
  : folder_(folder), path_(lock_path(folder)) {
  lock();
}

std::string folder_lock::renew() {
  if (is_file_at(file_.get(), path_))
    return {};
  lock();
  return problem_;
}

void folder_lock::lock() {
  require_writable_folder(folder_);
  problem_.clear();
  do {
    owned_descriptor file(
      ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file.get() < 0 && errno == EACCES) {
      remove_unwritable();
      continue;
    }
    if (file.get() < 0)
      fail_io(path_, "opened", std::strerror(errno));
    // The path may not have been found for a moment only. The file that is held
    // keeps its lock, which another open file could not get.
    const bool is_held = is_same_file(file_.get(), file.get());
    const auto trouble = lock_file(is_held ? file_.get() : file.get());
    if (trouble == EAGAIN || trouble == EACCES)
      refuse_used(file.get());
    if (!is_held)
      file_ = std::move(file);
    if (trouble != 0) {
      problem_ =
        fmt::format("{}: can't be locked: {}", path_, std::strerror(trouble));
      return;
    }
  } while (!is_file_at(file_.get(), path_));
  const auto text = fmt::format("process {} on {}", ::getpid(), host_name());
  if (::ftruncate(file_.get(), 0) != 0
      || ::pwrite(file_.get(), text.data(), text.size(), 0) < 0)
    problem_ =
      fmt::format("{}: can't be written: {}", path_, std::strerror(errno));
}

// Two users who do so at once may each have made a file then: `renew` tells the
// one whose file is gone.
void folder_lock::remove_unwritable() const {
  const auto refuse = [this] {
    fail(error_code::io,
         "{}: another user's job has left it, and this user may neither write "
         "nor remove it ({}); remove it, or let this user write to it",
         path_, std::strerror(errno));
  };
  const owned_descriptor file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 && errno == ENOENT)
    return;
  if (file.get() < 0)
    refuse();
  if (is_locked(file.get()))
    refuse_used(file.get());
  if (is_file_at(file.get(), path_) && ::unlink(path_.c_str()) != 0
      && errno != ENOENT)
    refuse();
}

void folder_lock::refuse_used(int file) const {
  fail(error_code::io,
       "{}: in use: {} saves checkpoints there; wait until it has ended, or "
       "give another folder",
       folder_, text_of(file));
}

folder_lock::~folder_lock() {
  if (is_file_at(file_.get(), path_))
    ::unlink(path_.c_str());
}

void take_over_folder(const std::string& folder) {
  const auto path = lock_path(folder);
  const owned_descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() >= 0 && is_locked(file.get()))
    ::unlink(path.c_str());
}

}  // namespace troupe
