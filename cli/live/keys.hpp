#pragma once

#include <termios.h>

namespace troupe::cli {

/// Reads typed keys one by one while it lives, if wanted and if standard input
/// is this process's own terminal.
class keys {
 public:
  explicit keys(bool wanted);
  keys(const keys&) = delete;
  keys& operator=(const keys&) = delete;
  ~keys();

  /// Whether q was typed, or the input has ended. Doesn't wait.
  bool has_q() const;

 private:
  bool reads_ = false;
  termios before_{};
};

}  // namespace troupe::cli
