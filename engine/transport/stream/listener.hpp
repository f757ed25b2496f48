#pragma once

#include <sys/types.h>

#include <string_view>

#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

/// A socket that listens at an endpoint. A unix socket has mode 0600; a missing
/// folder is made with mode 0700; a file that a dead process left is replaced.
/// Destruction removes the file.
class listener {
 public:
  /// Throws `io` if the endpoint is in use or can't be made, `transport` for an
  /// unknown host.
  explicit listener(const endpoint& address);
  ~listener();

  /// The nonblocking socket; the listener keeps ownership.
  int handle() const { return handle_.get(); }
  /// A duplicate, which the caller closes; below 0: there is none. Programs
  /// that this process starts do not inherit it.
  int duplicate() const;
  int family() const { return family_; }
  /// The endpoint, with the port that was taken.
  const endpoint& where() const { return where_; }

 private:
  void bind_unix();
  void bind_tcp();
  [[noreturn]] void fail_with(const char* predicate) const;

  endpoint where_;
  owned_descriptor handle_;
  int family_ = 0;
  dev_t device_ = 0;  // of the file that was made
  ino_t inode_ = 0;
};

/// Whether a process listens at a unix socket.
bool has_listener(const std::string& path);

/// Removes a folder's sockets with such names at which nobody listens any more;
/// keeps those younger than 10 s, which may still be starting up.
void remove_dead_sockets(const std::string& folder,
                         std::string_view prefix = {},
                         std::string_view suffix = ".sock");

}  // namespace troupe
