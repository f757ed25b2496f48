#pragma once

#include <sys/types.h>

#include <string_view>

#include "troupe/engine/transport/endpoint.hpp"

namespace troupe {

/// A socket that listens at an endpoint. One of unix has mode 0600; a folder
/// that is missing is made with mode 0700; a file that a dead process left is
/// replaced. The file goes with the listener.
class listener {
 public:
  /// Throws `io` where something lives there already or it can't be made,
  /// `transport` for a host that is not known.
  explicit listener(const endpoint& at);
  ~listener();
  listener(const listener&) = delete;
  listener& operator=(const listener&) = delete;

  /// The socket, not blocking; stays the listener's.
  int handle() const { return handle_; }
  int family() const { return family_; }
  /// With the port that was taken.
  const endpoint& where() const { return where_; }

 private:
  void bind_unix();
  void bind_tcp();
  [[noreturn]] void fail_with(const char* doing) const;

  endpoint where_;
  int handle_ = -1;
  int family_ = 0;
  dev_t device_ = 0;  // of the file that was made
  ino_t inode_ = 0;
};

/// Removes the sockets of a folder, with such names, at which nobody listens
/// any more; but none that is younger than 10 s, which may be in the making.
void remove_dead_sockets(const std::string& folder,
                         std::string_view begins = {},
                         std::string_view ends = ".sock");

}  // namespace troupe
