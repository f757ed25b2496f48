#include "troupe/engine/transport/stream/listener.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

constexpr int socket_type = SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC;

void remove_stale(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0)
    return;
  if (!S_ISSOCK(status.st_mode))
    fail(error_code::io, "{}: already exists, and is not a socket", path);
  if (has_listener(path))
    fail(error_code::io,
         "{}: a live job already listens there; choose another path", path);
  ::unlink(path.c_str());
}

void make_folder(const std::string& path) {
  const auto folder = std::filesystem::path(path).parent_path().string();
  if (!folder.empty() && ::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    fail(error_code::io, "{}: can't be made: {}", folder, std::strerror(errno));
}

std::uint16_t port_of(int handle) {
  sockaddr_storage bytes{};
  socklen_t size = sizeof(bytes);
  ::getsockname(handle, reinterpret_cast<sockaddr*>(&bytes), &size);
  return ntohs(bytes.ss_family == AF_INET6
                 ? reinterpret_cast<sockaddr_in6*>(&bytes)->sin6_port
                 : reinterpret_cast<sockaddr_in*>(&bytes)->sin_port);
}

/// Whether it is this user's socket and not brand-new: a socket is bound before
/// it listens.
bool is_old_socket(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)
         && status.st_uid == ::getuid()
         && std::time(nullptr) - status.st_mtime >= 10;
}

}  // namespace

bool has_listener(const std::string& path) {
  if (path.size() >= sizeof(sockaddr_un{}.sun_path))
    return false;
  const auto address = addresses_of({true, path, {}, 0}).front();
  const owned_descriptor handle(::socket(AF_UNIX, socket_type, 0));
  return ::connect(handle.get(), address.get(), address.size) == 0
         || errno == EAGAIN;
}

void remove_dead_sockets(const std::string& folder, std::string_view prefix,
                         std::string_view suffix) {
  std::error_code trouble;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder, trouble)) {
    const auto path = entry.path().string();
    const auto name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)
        && is_old_socket(path) && !has_listener(path))
      ::unlink(path.c_str());
  }
}

listener::listener(const endpoint& address) : where_(address) {
  address.is_unix ? bind_unix() : bind_tcp();
  if (::listen(handle(), SOMAXCONN) != 0)
    fail_with("be listened at");
}

listener::~listener() {
  handle_ = {};
  struct stat status {};
  const auto* path = where_.path.c_str();
  if (where_.is_unix && ::lstat(path, &status) == 0 && status.st_dev == device_
      && status.st_ino == inode_)
    ::unlink(path);
}

int listener::duplicate() const {
  return ::fcntl(handle(), F_DUPFD_CLOEXEC, 0);
}

void listener::bind_unix() {
  const auto address = addresses_of(where_).front();
  make_folder(where_.path);
  remove_stale(where_.path);
  family_ = address.family();
  handle_ = owned_descriptor(::socket(family_, socket_type, 0));
  // Set before the socket has a name, so that nobody else can ever open it.
  ::fchmod(handle(), 0600);
  if (::bind(handle(), address.get(), address.size) != 0)
    fail_with("be made");
  struct stat status {};
  if (::chmod(where_.path.c_str(), 0600) != 0
      || ::lstat(where_.path.c_str(), &status) != 0)
    fail_with("be made");
  device_ = status.st_dev;
  inode_ = status.st_ino;
}

void listener::bind_tcp() {
  const auto address = addresses_of(where_).front();
  family_ = address.family();
  handle_ = owned_descriptor(::socket(family_, socket_type, 0));
  const int yes = 1;
  ::setsockopt(handle(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  if (::bind(handle(), address.get(), address.size) != 0)
    fail_with("be taken");
  where_.port = port_of(handle());
}

void listener::fail_with(const char* predicate) const {
  fail(error_code::io, "{}: can't {}: {}", to_text(where_), predicate,
       std::strerror(errno));
}

}  // namespace troupe
