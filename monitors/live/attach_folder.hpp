#pragma once

#include <string>

#include "troupe/base/owned_descriptor.hpp"

namespace troupe {

/// The folder for files of monitors that clients attach. It is opened once;
/// each monitor gets a folder of its own in it that was not there before, so
/// that no file is replaced and no link followed. Any thread.
class attach_folder {
 public:
  /// Made if missing, with mode 0700. Throws `io` unless it is this user's and
  /// nobody else may write in it.
  explicit attach_folder(const std::string& path);

  /// Makes a folder with mode 0700, and returns its name: `begin`-1, or the
  /// first one that is free. Throws `io`.
  std::string make(const std::string& begin) const;
  /// The path by which this process finds such a folder, whatever has become of
  /// the one that was given; valid as long as this lives.
  std::string path_of(const std::string& name) const;
  /// The path that people know.
  std::string display_path(const std::string& name) const;

 private:
  std::string path_;
  owned_descriptor folder_;
};

}  // namespace troupe
