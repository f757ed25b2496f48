#pragma once

#include <chrono>
#include <string>

namespace troupe {

/// A hidden file of random content in a folder of checkpoints, by which other
/// processes can tell that they see the same folder. Removed with the object;
/// `checkpoint_folder::prepare` removes that of a killed process.
class folder_marker {
 public:
  /// The folder must exist. Throws `io`.
  explicit folder_marker(const std::string& folder);
  ~folder_marker();
  folder_marker(const folder_marker&) = delete;
  folder_marker& operator=(const folder_marker&) = delete;

  /// The file's name in the folder, and what it holds.
  const std::string& name() const { return name_; }
  const std::string& content() const { return content_; }

 private:
  std::string name_, content_, path_;
};

/// Waits, at most so long, until the file holds this content; returns whether
/// it does. Network file systems cache folders: the cache is refreshed on each
/// attempt. Leaves nothing behind.
bool is_seen(const std::string& path, const std::string& content,
             std::chrono::milliseconds longest);

}  // namespace troupe
