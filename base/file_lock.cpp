#include "troupe/base/file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace troupe {

int lock_file(int descriptor) {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return ::fcntl(descriptor, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
}

bool is_file_at(int descriptor, const std::string& path) {
  struct stat own {
  }, there{};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &there) == 0
         && own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

}  // namespace troupe
