#include "troupe/training/stop_on_signals.hpp"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "troupe/actors/trainer.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace troupe {

namespace {

// What a signal's handler may reach.
std::atomic<int> signal_pipe = -1;  // the end to write to; -1: nobody waits
std::atomic<int> first_signal = 0;

constexpr std::array watched{SIGINT, SIGTERM};

void take_signal(int number) {
  const auto before = errno;
  int none = 0;
  if (!first_signal.compare_exchange_strong(none, number))
    ::_exit(128 + number);
  const auto byte = static_cast<char>(number);
  if (::write(signal_pipe, &byte, 1) != 1)
    ::_exit(128 + number);
  errno = before;
}

/// Waits for the number of a signal; 0: none comes any more.
char signal_from(int pipe) {
  for (;;) {
    char number = 0;
    if (::read(pipe, &number, 1) == 1)
      return number;
    if (errno != EINTR)
      return 0;
  }
}

void stop_at_signal(trainer& run, int pipe) {
  const auto number = signal_from(pipe);
  if (number == 0)
    return;
  try {
    run.stop(number == SIGINT ? "SIGINT" : "SIGTERM");
  } catch (...) {
    spdlog::error("a signal could not stop the run: {}", thrown_text());
  }
}

}  // namespace

struct stop_on_signals::impl {
  explicit impl(trainer& run) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      fail(error_code::io, "no pipe for signals: {}",
           std::system_category().message(errno));
    read_ = owned_descriptor(ends[0]);
    write_ = owned_descriptor(ends[1]);
    int nobody = -1;
    if (!signal_pipe.compare_exchange_strong(nobody, ends[1]))
      throw error(error_code::internal,
                  "two stop_on_signals at a time: make one for a process");
    first_signal = 0;
    try {
      waiter_ =
        std::thread([&run, from = ends[0]] { stop_at_signal(run, from); });
    } catch (const std::system_error& reason) {
      signal_pipe = -1;
      fail(error_code::io, "no thread that waits for signals: {}",
           reason.what());
    }
    struct sigaction wanted {};
    wanted.sa_handler = take_signal;
    wanted.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < watched.size(); ++i)
      ::sigaction(watched[i], &wanted, &before_[i]);
  }
  ~impl() {
    for (std::size_t i = 0; i < watched.size(); ++i)
      ::sigaction(watched[i], &before_[i], nullptr);
    const char none = 0;
    if (::write(write_.get(), &none, 1) == 1)
      waiter_.join();
    else
      waiter_.detach();
    signal_pipe = -1;
  }
  impl(const impl&) = delete;
  impl& operator=(const impl&) = delete;

 private:
  owned_descriptor read_, write_;
  std::array<struct sigaction, watched.size()> before_{};
  std::thread waiter_;
};

stop_on_signals::stop_on_signals(trainer& run)
  : impl_(std::make_unique<impl>(run)) {}

stop_on_signals::~stop_on_signals() = default;

int stop_on_signals::exit_code() const {
  const auto number = first_signal.load();
  return number == 0 ? 0 : 128 + number;
}

}  // namespace troupe
