#include "troupe/engine/checkpoint/folder_marker.hpp"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <thread>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/names.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

bool holds(const std::string& path, const std::string& content) {
  try {
    return input_file(path).read(content.size() + 1) == content;
  } catch (const error&) {
    return false;
  }
}

/// Creates and removes a folder, for which a network file system asks its
/// server and drops its cache of the parent. Returns whether it was created.
bool was_missing(const fs::path& folder) {
  std::error_code trouble;
  const bool is_new = fs::create_directory(folder, trouble);
  if (is_new)
    fs::remove(folder, trouble);
  return is_new;
}

/// Looks at each folder that the path leads through. Returns false if one is
/// certainly missing.
bool look_again(const fs::path& folder) {
  std::error_code trouble;
  fs::path at;
  for (const auto& name : fs::absolute(folder, trouble)) {
    at /= name;
    if (!fs::exists(at, trouble) && was_missing(at))
      return false;
  }
  was_missing(at / (".step-probe." + random_digits(1)));
  return true;
}

}  // namespace

folder_marker::folder_marker(const std::string& folder)
  : name_(".step-marker." + random_digits(2)),
    content_(random_digits(4)),
    path_((fs::path(folder) / name_).string()) {
  write_file_atomically(path_, content_);
}

folder_marker::~folder_marker() {
  std::error_code trouble;
  fs::remove(path_, trouble);
}

bool is_seen(const std::string& path, const std::string& content,
             std::chrono::milliseconds longest) {
  const auto end = std::chrono::steady_clock::now() + longest;
  for (auto pause = std::chrono::milliseconds(1);;
       pause = std::min(2 * pause, std::chrono::milliseconds(250))) {
    if (holds(path, content))
      return true;
    if (!look_again(fs::path(path).parent_path()))
      return false;
    if (holds(path, content))
      return true;
    if (std::chrono::steady_clock::now() + pause > end)
      return false;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace troupe
