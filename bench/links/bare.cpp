#include "ways.hpp"

#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

namespace {

using clock = std::chrono::steady_clock;

struct plain {
  explicit plain(int socket) : socket_(socket) {}
  std::size_t write(const char* bytes, std::size_t size) {
    return checked(::send(socket_, bytes, size, MSG_NOSIGNAL));
  }
  std::size_t read(char* buffer, std::size_t size) {
    return checked(::recv(socket_, buffer, size, 0));
  }
  static std::size_t checked(ssize_t moved) {
    if (moved <= 0)
      throw std::runtime_error("a bare socket failed");
    return static_cast<std::size_t>(moved);
  }
  int socket_;
};

struct encrypted {
  encrypted(int socket, const troupe::tls_context& context, bool is_server)
    : session_(context.make_session(is_server), &::SSL_free) {
    SSL_clear_mode(session_.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
    ::SSL_set_fd(session_.get(), socket);
    if (::SSL_do_handshake(session_.get()) != 1)
      throw std::runtime_error("a bare handshake failed");
  }
  std::size_t write(const char* bytes, std::size_t size) {
    return plain::checked(
      ::SSL_write(session_.get(), bytes, static_cast<int>(size)));
  }
  std::size_t read(char* buffer, std::size_t size) {
    return plain::checked(
      ::SSL_read(session_.get(), buffer, static_cast<int>(size)));
  }
  std::unique_ptr<::SSL, decltype(&::SSL_free)> session_;
};

template <class Way>
void read_all(Way& way, char* buffer, std::size_t size) {
  for (std::size_t done = 0; done < size;)
    done += way.read(buffer + done, size - done);
}

template <class Way>
double send_all(Way&& way, std::size_t bytes, int count) {
  const std::vector<char> sent(bytes, 'x');
  char word = 0;
  way.read(&word, 1);  // the other side is ready
  const auto begin = clock::now();
  for (int i = 0; i < count; ++i)
    for (std::size_t done = 0; done < bytes;)
      done += way.write(sent.data() + done, bytes - done);
  way.read(&word, 1);
  return std::chrono::duration<double>(clock::now() - begin).count();
}

template <class Way>
void receive_all(Way&& way, std::size_t bytes, int count) {
  std::vector<char> into(bytes, 'y');
  way.write("r", 1);
  for (int i = 0; i < count; ++i)
    read_all(way, into.data(), bytes);
  way.write("d", 1);
  way.read(into.data(), 1);
}

}  // namespace

double bare_socket(const std::array<int, 2>& sockets, std::size_t bytes,
                   int count) {
  return in_two_processes(
    sockets,
    [&](int socket) {
      plain way(socket);
      const auto seconds = send_all(way, bytes, count);
      way.write("d", 1);
      ::close(socket);
      return seconds;
    },
    [&](int socket) { receive_all(plain(socket), bytes, count); });
}

std::vector<double> bare_round_trips(const std::array<int, 2>& sockets,
                                     int count,
                                     std::chrono::microseconds pause) {
  std::vector<double> all;
  std::vector<char> bytes(1024);
  const auto own = [&](int socket) {
    plain way(socket);
    for (int i = 0; i < count; ++i) {
      std::this_thread::sleep_for(pause);
      const auto begin = clock::now();
      way.write(bytes.data(), bytes.size());
      read_all(way, bytes.data(), bytes.size());
      const std::chrono::duration<double> took = clock::now() - begin;
      all.push_back(took.count() / 2 * 1e6);
    }
    ::close(socket);
    return 0.0;
  };
  in_two_processes(sockets, own, [&](int socket) {
    plain way(socket);
    for (int i = 0; i < count; ++i) {
      read_all(way, bytes.data(), bytes.size());
      way.write(bytes.data(), bytes.size());
    }
  });
  return all;
}

double bare_tls(const std::array<int, 2>& sockets,
                const std::shared_ptr<troupe::tls_context>& context,
                std::size_t bytes, int count) {
  return in_two_processes(
    sockets,
    [&](int socket) {
      encrypted way(socket, *context, false);
      const auto seconds = send_all(way, bytes, count);
      way.write("d", 1);
      ::close(socket);
      return seconds;
    },
    [&](int socket) {
      receive_all(encrypted(socket, *context, true), bytes, count);
    });
}
