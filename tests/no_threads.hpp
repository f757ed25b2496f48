#pragma once

#include <pthread.h>

#include <cstddef>

namespace troupe::testing {

/// During its lifetime no thread can be started, as its stack would not fit.
class no_threads {
 public:
  no_threads() {
    ::pthread_getattr_default_np(&usual_);
    pthread_attr_t too_large;
    ::pthread_getattr_default_np(&too_large);
    ::pthread_attr_setstacksize(&too_large, std::size_t{1} << 47);
    ::pthread_setattr_default_np(&too_large);
    ::pthread_attr_destroy(&too_large);
  }
  ~no_threads() {
    ::pthread_setattr_default_np(&usual_);
    ::pthread_attr_destroy(&usual_);
  }
  no_threads(const no_threads&) = delete;
  no_threads& operator=(const no_threads&) = delete;

 private:
  pthread_attr_t usual_{};
};

}  // namespace troupe::testing
