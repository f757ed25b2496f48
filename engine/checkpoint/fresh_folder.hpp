#pragma once

#include <string>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// Throws `io` unless a folder can be made at `path`: there is none yet, or an
/// empty one.
void require_free(const std::string& path);

/// A folder that appears whole or not at all: files are written into one of
/// another name beside it, which is removed unless `keep` renames it, and is
/// locked until then. Those that killed writers of the same path have left are
/// removed, unless the file system has no locks. If `path` was taken meanwhile,
/// the folder stays as PATH.saved-1a2b3c4d, and `keep` throws. One thread.
class fresh_folder {
 public:
  /// Throws `io`, as `keep` does.
  explicit fresh_folder(const std::string& path);
  ~fresh_folder();
  fresh_folder(const fresh_folder&) = delete;
  fresh_folder& operator=(const fresh_folder&) = delete;

  /// The path of a file in it, until `keep`.
  std::string file(const std::string& name) const;
  void keep();

 private:
  bool create();

  std::string path_, temporary_;
  owned_descriptor lock_;
};

}  // namespace troupe
