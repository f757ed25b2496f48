#pragma once

#include <utility>

namespace troupe {

/// While it lives, `current()`, a value of the calling thread, is another one.
template <class T, T& (*current)()>
class current_scope {
 public:
  explicit current_scope(T next)
    : before_(std::exchange(current(), std::move(next))) {}
  ~current_scope() { current() = std::move(before_); }
  current_scope(const current_scope&) = delete;
  current_scope& operator=(const current_scope&) = delete;

 private:
  T before_;
};

}  // namespace troupe
