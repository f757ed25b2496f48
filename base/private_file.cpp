#include "troupe/base/private_file.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace troupe {

void require_trustworthy(const input_file& file) {
  struct stat status = {};
  if (::fstat(file.descriptor(), &status) != 0)
    file.refuse(std::string("can't be examined: ") + std::strerror(errno));
  if (status.st_uid != ::geteuid() && status.st_uid != 0)
    file.refuse(
      fmt::format("belongs to user {}, who may have written it, and this "
                  "process is user {}'s; make a copy of your own",
                  status.st_uid, ::geteuid()));
  if ((status.st_mode & 022U) != 0)
    file.refuse("other users can write this file; run chmod go-w on it");
}

void require_private(const input_file& file) {
  if ((file.mode() & 077U) != 0)
    file.refuse(
      "other users can read or write this secret; run chmod 600 on it");
  require_trustworthy(file);
}

}  // namespace troupe
