#pragma once

#include <string>

namespace troupe {

// Overlay file systems, as containers have them, can't rename a folder that is
// in a lower layer.

/// Removes a file or a folder with all that is in it, if it is there. Throws
/// `io`.
void remove_path(const std::string& path);

/// Renames a checkpoint's folder. Where the file system can't, writes a copy
/// under a hidden name beside it, renames that, and removes the folder, the
/// manifest first: a process that is killed leaves the checkpoint under at
/// least one of both names. Throws `io`.
void move_checkpoint(const std::string& from, const std::string& to);

/// Removes a checkpoint's folder: renames it to `hidden` first, so that a
/// process that is killed leaves no half of a checkpoint under its name; where
/// the file system can't, removes the manifest first. Throws `io`.
void remove_checkpoint(const std::string& path, const std::string& hidden);

}  // namespace troupe
