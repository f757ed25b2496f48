#include "troupe/engine/transport/address/own_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

/// What is wrong with a folder; empty: it is this user's alone.
std::string trouble_with(const std::string& folder) {
  struct stat status {};
  if (::lstat(folder.c_str(), &status) != 0)
    return fmt::format("{} can't be made: {}", folder, std::strerror(errno));
  if (!S_ISDIR(status.st_mode))
    return fmt::format("{} is no folder", folder);
  if (status.st_uid != ::geteuid())
    return fmt::format("{} belongs to user {}", folder, status.st_uid);
  if ((status.st_mode & 077U) != 0)
    return fmt::format("{} is open to other users", folder);
  return {};
}

/// This user's folders with the prefix, which other users' may have, too.
std::vector<std::string> further_folders(const std::string& prefix) {
  const std::filesystem::path begin(prefix);
  std::vector<std::string> folders;
  std::error_code trouble;
  for (std::filesystem::directory_iterator at(begin.parent_path(), trouble),
       end;
       !trouble && at != end; at.increment(trouble)) {
    const auto& path = at->path();
    if (path.filename().string().starts_with(begin.filename().string())
        && trouble_with(path.string()).empty())
      folders.push_back(path.string());
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

folder_places usual_places() {
  folder_places places;
  const auto* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && *runtime == '/'
      && ::access(runtime, W_OK | X_OK) == 0)
    places.usual.push_back(fmt::format("{}/troupe", runtime));
  places.usual.push_back(fmt::format("/tmp/troupe-{}", ::geteuid()));
  places.prefix = places.usual.back() + "-";
  return places;
}

own_folder find_own_folder(const folder_places& places) {
  std::vector<std::string> troubles;
  for (const auto& folder : places.usual) {
    ::mkdir(folder.c_str(), 0700);  // or it is there
    const auto trouble = trouble_with(folder);
    if (trouble.empty())
      return {folder, fmt::format("{}", fmt::join(troubles, ", "))};
    troubles.push_back(trouble);
  }
  auto trouble = fmt::format("{}", fmt::join(troubles, ", "));
  if (const auto further = further_folders(places.prefix); !further.empty())
    return {further.front(), std::move(trouble)};
  auto folder = places.prefix + "XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr)
    fail(error_code::io, "{}, and {} can't be made: {}", trouble, folder,
         std::strerror(errno));
  return {folder, std::move(trouble)};
}

std::vector<std::string> own_folders(const folder_places& places) {
  for (const auto& folder : places.usual) {
    if (trouble_with(folder).empty())
      return {folder};
    if (::access(folder.c_str(), F_OK) != 0 && errno == ENOENT)
      return {};  // it would be made
  }
  return further_folders(places.prefix);
}

}  // namespace troupe
