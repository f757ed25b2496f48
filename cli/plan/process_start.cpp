#include "troupe/cli/plan/process_start.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string_view>

#include "troupe/base/error.hpp"

namespace troupe::cli {

namespace {

error_reporter report_uncaught = nullptr;  // set before any thread starts

int throw_again() {
  if (const auto uncaught = std::current_exception())
    std::rethrow_exception(uncaught);
  throw std::logic_error("the process was ended by its own code");
}

/// The reporter throws if there is no memory for its text.
[[noreturn]] void end_uncaught() {
  static std::atomic_flag reported;
  while (reported.test_and_set())
    ::pause();  // another thread ends the process
  try {
    report_uncaught(throw_again);
  } catch (...) {
    constexpr std::string_view text = "troupe: error: out of memory\n";
    [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, text.data(), text.size());
  }
  ::_exit(1);
}

}  // namespace

void prepare_process(error_reporter report) {
  // `open` takes the lowest free number: the closed one.
  for (int each = STDIN_FILENO; each <= STDERR_FILENO; ++each)
    if (::fcntl(each, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", each == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  report_uncaught = report;
  std::set_terminate(end_uncaught);
}

void drop_closed_output() {
  const auto mode = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (mode < 0 || (mode & O_ACCMODE) != O_RDONLY)
    return;
  const auto null_device = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  ::dup2(null_device, STDOUT_FILENO);
  ::close(null_device);
}

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

void become_runtime(char** argv) {
  require_room_for_runtime();
  std::error_code trouble;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", trouble);
  const auto program = self.parent_path() / "troupe-runtime";
  ::execv(program.c_str(), argv);
  const auto reason = errno;
  if (reason == ENOENT)
    fail(error_code::io,
         "{} is missing: this command needs troupe's training program; build "
         "or install the complete project",
         program.string());
  fail(error_code::io, "{} can't be started: {}", program.string(),
       std::strerror(reason));
}

}  // namespace troupe::cli
