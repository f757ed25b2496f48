#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe {

/// A file that appears whole or not at all: written under a temporary name
/// beside its path, `PATH.troupe-1a2b3c4d`, synchronised, and renamed, and the
/// folder synchronised. The temporary file is locked as long as it is written,
/// where the file system has locks. A link's target is replaced, not the link.
/// Access rights are those of any new file. A path that can't be renamed over
/// (a pipe, a device) is written in place. Use one object from one thread;
/// different objects are independent.
class atomic_file {
 public:
  /// Throws `io` with the path and the system's reason, as all members do
  /// (a full disk too).
  explicit atomic_file(std::string path);
  atomic_file(const atomic_file&) = delete;
  atomic_file& operator=(const atomic_file&) = delete;
  /// Without `commit`, nothing is left behind.
  ~atomic_file();

  void write(std::string_view bytes);
  void commit();

 private:
  [[noreturn]] void fail(const char* doing) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

/// Throws `io`: "PATH: can't be written: REASON".
[[noreturn]] void fail_io(const std::string& path, const char* doing,
                          const std::string& reason);

/// Makes the renames in a folder durable. False: see errno. True where this
/// process may not read the folder, or the file system doesn't support
/// synchronising folders (some of FUSE and 9p).
bool synchronise_folder(const std::string& path);

void write_file_atomically(const std::string& path, std::string_view bytes);

/// A name for a temporary of `path`: PATH.troupe-1a2b3c4d, at random.
std::string temporary_name(const std::string& path);
/// The temporaries of `path`, files and folders, that can be seen.
std::vector<std::string> temporaries_of(const std::string& path);

/// Removes the temporary files of killed writers of `path`. Keeps those of
/// writers that are alive, and removes none where the file system has no locks.
/// Never throws.
void remove_abandoned_temporaries(const std::string& path) noexcept;

/// Throws `io` unless a file can be created at `path`; leaves nothing behind.
void require_writable(const std::string& path);

/// Makes the folder and its parents if they are missing. Throws `io`; the
/// latter also unless files can be created in it.
void make_folder(const std::string& path);
void require_writable_folder(const std::string& path);

}  // namespace troupe
