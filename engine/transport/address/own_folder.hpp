#pragma once

#include <string>
#include <vector>

namespace troupe {

/// Where a user's processes keep their sockets.
struct folder_places {
  /// The first that can be used is, and is made if missing.
  std::vector<std::string> usual;
  /// Begins further folders' names, PREFIX1a2b3c, used where none of these can
  /// be, as another user has made them first.
  std::string prefix;
};

/// $XDG_RUNTIME_DIR/troupe where there is one, and /tmp/troupe-UID.
folder_places usual_places();

struct own_folder {
  std::string path;
  /// Why the usual ones can't be used; empty: one can.
  std::string trouble{};
};

/// A folder that only its owner, this user, may enter. Processes that start
/// after the first one find the same; to be sure, let one find it before it
/// starts the others. Throws `io` if none can be made.
own_folder find_own_folder(const folder_places& places = usual_places());

/// Those that `find_own_folder` finds, or may have found before. Makes none.
std::vector<std::string> own_folders(
  const folder_places& places = usual_places());

}  // namespace troupe
