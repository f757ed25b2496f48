#pragma once

#include <string>

namespace troupe {

/// Locks the whole of a file that is open for writing, by a record lock
/// (fcntl) of its open file description: the kernel releases it once all its
/// descriptors are closed, also by kill -9, and network file systems know it.
/// Never waits. Returns 0 or an errno: EAGAIN (EACCES by some systems) if
/// another process, or another description in this one, has the lock; other
/// ones where the file system has no locks.
int lock_file(int descriptor);

/// Whether another process or description has a lock on the file, which need
/// not be open for writing; false where the file system has no locks.
bool is_locked(int descriptor);

/// Whether two descriptors are of one file.
bool is_same_file(int descriptor, int other);

/// Whether the path still leads to this open file.
bool is_file_at(int descriptor, const std::string& path);

}  // namespace troupe
