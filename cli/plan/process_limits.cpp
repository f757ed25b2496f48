#include "troupe/cli/plan/process_limits.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>

#include "troupe/base/error.hpp"

namespace troupe::cli {

namespace {

// Measured: LibTorch 2.11 of a CUDA build loads in 445,000 KiB.
constexpr rlim_t least_kib = 512 * 1024;
// A process with an endpoint and links to a few others.
constexpr rlim_t least_files = 64;

/// RLIM_INFINITY is the largest number.
rlim_t limit_of(__rlimit_resource_t what) {
  rlimit found{RLIM_INFINITY, RLIM_INFINITY};
  ::getrlimit(what, &found);
  return found.rlim_cur;
}

}  // namespace

void require_room_for_runtime() {
  const auto kib = limit_of(RLIMIT_AS) / 1024;
  if (kib < least_kib)
    fail(error_code::device,
         "the address space of this process is limited to {} KiB (ulimit -v), "
         "and loading LibTorch alone takes up to {}; raise the limit",
         kib, least_kib);
  const auto files = limit_of(RLIMIT_NOFILE);
  if (files < least_files)
    fail(error_code::device,
         "too many open files (ulimit -n is {}): this command may open {}; "
         "raise the limit",
         files, least_files);
}

std::string with_limit(std::string text) {
  if (text.find(std::strerror(EMFILE)) != std::string::npos)
    text += fmt::format(" (ulimit -n is {})", limit_of(RLIMIT_NOFILE));
  return text;
}

}  // namespace troupe::cli
