#include "troupe/engine/transport/secret_file.hpp"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace {

// A recorded handshake allows offline guessing of short tokens.
constexpr std::size_t shortest = 16, longest = 4096;
constexpr auto* white_space = " \t\r\n\v\f";

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  fail(error_code::invalid_argument, "{}: {}", printable(path), why);
}

class opened {
 public:
  explicit opened(const std::string& path)
    : handle_(
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY)) {
    if (handle_ < 0)
      refuse(path,
             fmt::format("the token can't be read: {}", std::strerror(errno)));
  }
  opened(const opened&) = delete;
  opened& operator=(const opened&) = delete;
  ~opened() { ::close(handle_); }
  int handle() const { return handle_; }

 private:
  int handle_;
};

const char* kind_of(mode_t mode) {
  return S_ISDIR(mode)    ? "a folder"
         : S_ISFIFO(mode) ? "a pipe"
                          : "a device or a socket";
}

void require_private_file(const std::string& path, int handle) {
  struct stat found = {};
  if (::fstat(handle, &found) != 0)
    refuse(path, std::strerror(errno));
  if (!S_ISREG(found.st_mode))
    refuse(path, fmt::format("is {}; a token is read from a regular file",
                             kind_of(found.st_mode)));
  if ((found.st_mode & 077U) != 0)
    refuse(path, "others may read or write this secret; chmod 600 it");
}

/// Reads at most one byte more than the longest token.
std::string bytes_of(const std::string& path, int handle) {
  std::string bytes(longest + 1, '\0');
  std::size_t got = 0;
  while (got < bytes.size()) {
    const auto count = ::read(handle, bytes.data() + got, bytes.size() - got);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      refuse(path,
             fmt::format("the token can't be read: {}", std::strerror(errno)));
    if (count == 0)
      break;
    got += static_cast<std::size_t>(count);
  }
  bytes.resize(got);
  return bytes;
}

std::string without_white_space(const std::string& bytes) {
  const auto first = bytes.find_first_not_of(white_space);
  if (first == std::string::npos)
    return {};
  return bytes.substr(first, bytes.find_last_not_of(white_space) + 1 - first);
}

}  // namespace

std::string read_secret(const std::string& path) {
  if (path.empty())
    fail(error_code::invalid_argument,
         "the name of the file with the token is empty; name one");
  const opened file(path);
  require_private_file(path, file.handle());
  const auto bytes = bytes_of(path, file.handle());
  if (bytes.size() > longest)
    refuse(path,
           fmt::format("holds more than {} bytes; is it a token?", longest));
  auto token = without_white_space(bytes);
  if (token.size() < shortest)
    refuse(path,
           fmt::format("has {} characters; a token has at least {} characters: "
                       "`head -c 32 /dev/urandom | base64` writes one",
                       token.size(), shortest));
  if (token.find_first_of(white_space) != std::string::npos
      || token.find('\0') != std::string::npos)
    refuse(path, "holds more than one word; write the token alone");
  return token;
}

bool same_secret(const std::string& a, const std::string& b) {
  return a.size() == b.size()
         && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace troupe
