#include "troupe/engine/checkpoint/folder_lock.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/file_lock.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

std::string reason(int code) {
  return std::error_code{code, std::generic_category()}.message();
}

std::string this_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0)
    host[0] = '?';
  return fmt::format("process {} on {}", ::getpid(), host.data());
}

std::string text_of(int file) {
  std::array<char, 512> text{};
  const auto size = ::pread(file, text.data(), text.size() - 1, 0);
  return size > 0
           ? printable(std::string(text.data(), static_cast<std::size_t>(size)))
           : "another process";
}

}  // namespace

folder_lock::folder_lock(const std::string& folder)
  : path_((std::filesystem::path(folder) / ".lock").string()) {
  require_writable_folder(folder);
  for (;;) {
    file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file_ < 0)
      fail(error_code::io, "{}: can't be opened: {}", path_, reason(errno));
    const auto trouble = lock_file(file_);
    if (trouble == EAGAIN || trouble == EACCES) {
      const auto owner = text_of(file_);
      ::close(file_);
      fail(error_code::io,
           "{}: in use: {} saves checkpoints there; wait until it has ended, "
           "or give another folder",
           folder, owner);
    }
    if (trouble != 0) {
      problem_ = fmt::format("{}: can't be locked: {}", path_, reason(trouble));
      return;
    }
    if (is_file_at(file_, path_))
      break;
    ::close(file_);
  }
  const auto text = this_process();
  if (::ftruncate(file_, 0) != 0
      || ::pwrite(file_, text.data(), text.size(), 0) < 0)
    problem_ = fmt::format("{}: can't be written: {}", path_, reason(errno));
}

folder_lock::~folder_lock() {
  if (is_file_at(file_, path_))
    ::unlink(path_.c_str());
  ::close(file_);
}

}  // namespace troupe
