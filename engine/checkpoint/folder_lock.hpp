#pragma once

#include <string>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// Keeps a folder for one job while it lives: a record lock (fcntl) on a hidden
/// file in it, which the kernel releases when its process ends, also after
/// kill -9, and which network file systems know. A file that a killed job of
/// another user has left, and that this one may not write, is replaced. On file
/// systems without record locks nothing is kept. One thread at a time.
class folder_lock {
 public:
  /// Throws `io` if another job has the folder, with the process and host that
  /// hold it; and if the folder can't be made or written to.
  explicit folder_lock(const std::string& folder);
  ~folder_lock();
  /// Locks again if the folder or the file was removed or moved meanwhile.
  /// Throws as the constructor: another job may have the folder by now. Returns
  /// `problem` if it locked again, empty otherwise.
  std::string renew();
  folder_lock(const folder_lock&) = delete;
  folder_lock& operator=(const folder_lock&) = delete;

  /// Why the folder is not locked, or its owner not named in it, since it was
  /// locked last; empty if all is well.
  const std::string& problem() const { return problem_; }

 private:
  void lock();
  void remove_unwritable() const;
  [[noreturn]] void refuse_used(int file) const;

  std::string folder_;
  std::string path_, problem_;
  owned_descriptor file_;
};

/// Takes the folder from a process that has no part in the job any more, but
/// may still live: its `renew` throws then, unless the folder is free again.
void take_over_folder(const std::string& folder);

}  // namespace troupe
