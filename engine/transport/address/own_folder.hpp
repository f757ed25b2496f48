#pragma once

#include <string>
#include <vector>

namespace troupe {

/// The folders where a user's processes may keep their sockets.
struct folder_places {
  /// The first of these that can be used is used, and made if it is missing.
  std::vector<std::string> usual;
  /// Where none of these can be used, as another user has made them first, a
  /// folder PREFIX1a2b3c is.
  std::string prefix;
};

/// $XDG_RUNTIME_DIR/troupe where there is one, and /tmp/troupe-UID.
folder_places usual_places();

struct own_folder {
  std::string path;
  /// Why the usual folders before this one can't be used; empty: it is the
  /// first.
  std::string trouble{};
};

/// Finds or makes a folder that only its owner, this user, may enter. Processes
/// that start after the first one find the same; to be sure, let one find it
/// before it starts the others. Throws `io` if none can be made.
own_folder find_own_folder(const folder_places& places = usual_places());

/// The folders that `find_own_folder` finds, or may have found before. Makes
/// none.
std::vector<std::string> own_folders(
  const folder_places& places = usual_places());

}  // namespace troupe
