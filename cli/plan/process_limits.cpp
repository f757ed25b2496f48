#include "troupe/cli/plan/process_limits.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "troupe/base/error.hpp"

namespace troupe::cli {

namespace {

// Measured: LibTorch 2.11 of a CUDA build loads in 445,000 KiB.
constexpr rlim_t least_kib = 512 * 1024;
// For an endpoint, and links to a few other processes.
constexpr int least_files = 60;

/// RLIM_INFINITY is the largest number.
rlim_t limit_of(__rlimit_resource_t what) {
  rlimit found{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(what, &found);
  return found.rlim_cur;
}

/// Whether so many more files can be opened.
bool has_room_for(int files, rlim_t limit) {
  for (rlim_t each = 0; each < limit && files > 0; ++each)
    if (::fcntl(static_cast<int>(each), F_GETFD) < 0)
      --files;
  return files == 0;
}

}  // namespace

void require_room_for_runtime() {
  const auto kib = limit_of(RLIMIT_AS) / 1024;
  if (kib < least_kib)
    fail(error_code::device,
         "the address space of this process is limited to {} KiB (ulimit -v), "
         "but loading LibTorch needs up to {} KiB; raise the limit",
         kib, least_kib);
  const auto files = limit_of(RLIMIT_NOFILE);
  if (!has_room_for(least_files, files))
    fail(error_code::device,
         "too many open files (ulimit -n is {}): this command may need {} "
         "more; raise the limit",
         files, least_files);
}

std::string with_limit(std::string text) {
  if (text.find(std::strerror(EMFILE)) != std::string::npos)
    text += fmt::format(" (ulimit -n is {})", limit_of(RLIMIT_NOFILE));
  return text;
}

}  // namespace troupe::cli
