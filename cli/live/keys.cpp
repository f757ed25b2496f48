#include "troupe/cli/live/keys.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace troupe::cli {

keys::keys(bool wanted) {
  // A background process would be stopped.
  if (!wanted || ::tcgetattr(STDIN_FILENO, &before_) != 0
      || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp())
    return;
  auto by_key = before_;
  by_key.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  reads_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &by_key) == 0;
}

keys::~keys() {
  if (reads_)
    ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

bool keys::has_q() const {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (!reads_ || ::poll(&input, 1, 0) <= 0)
    return false;
  std::array<char, 64> typed{};
  const auto count = ::read(STDIN_FILENO, typed.data(), typed.size());
  return count <= 0
         || std::find(typed.begin(), typed.begin() + count, 'q')
              != typed.begin() + count;
}

}  // namespace troupe::cli
