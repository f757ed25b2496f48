#pragma once

#include <termios.h>

namespace troupe::cli {

/// What is typed, key by key, while it lives: where it is wanted and standard
/// input is this process's own terminal.
class keys {
 public:
  explicit keys(bool wanted);
  keys(const keys&) = delete;
  keys& operator=(const keys&) = delete;
  ~keys();

  /// Whether a q was typed, or the end of the input. Doesn't wait.
  bool has_q() const;

 private:
  bool reads_ = false;
  termios before_{};
};

}  // namespace troupe::cli
