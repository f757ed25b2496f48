#include "troupe/base/file_lock.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace troupe {

namespace {

struct flock whole_file() {
  struct flock whole {};
  whole.l_type = F_WRLCK;
  whole.l_whence = SEEK_SET;
  return whole;
}

}  // namespace

int lock_file(int descriptor) {
  auto whole = whole_file();
  return ::fcntl(descriptor, F_OFD_SETLK, &whole) == 0 ? 0 : errno;
}

bool is_locked(int descriptor) {
  auto whole = whole_file();
  return ::fcntl(descriptor, F_OFD_GETLK, &whole) == 0
         && whole.l_type != F_UNLCK;
}

namespace {

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

bool is_same_file(int descriptor, int other) {
  struct stat own {
  }, there{};
  return ::fstat(descriptor, &own) == 0 && ::fstat(other, &there) == 0
         && is_same(own, there);
}

bool is_file_at(int descriptor, const std::string& path) {
  struct stat own {
  }, there{};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &there) == 0
         && is_same(own, there);
}

}  // namespace troupe
