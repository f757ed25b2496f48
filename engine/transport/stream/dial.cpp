#include "troupe/engine/transport/stream/dial.hpp"

#include <utility>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>

#include "troupe/base/error.hpp"
#include "troupe/engine/transport/trust/authenticate.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

constexpr milliseconds first_pause{20}, longest_pause{500};
/// Time for one address before the next is tried.
constexpr milliseconds longest_attempt{5000};
/// And to authenticate there, of a quarter of all time: the other side may be
/// gone while the packet that says so was lost.
constexpr milliseconds least_authentication{1000}, most_authentication{15000};

class dialling : public std::enable_shared_from_this<dialling> {
 public:
  dialling(io_loop& loop, const endpoint& address, const credentials& shown,
           milliseconds within, authentication_outcome then)
    : loop_(loop),
      address_(address),
      trust_(make_trust(address, shown)),
      addresses_(addresses_of(address)),
      within_(within),
      until_(clock::now() + within),
      then_(std::move(then)),
      waiting_(loop.context()),
      timer_(loop.context()) {}

  void attempt() {
    const auto& target = addresses_[next_];
    socket_ =
      ::socket(target.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0)
      return again(std::strerror(errno));
    if (::connect(socket_, target.get(), target.size) == 0)
      return show();
    if (errno != EINPROGRESS)
      return drop(std::strerror(errno));
    waiting_.assign(socket_);
    waiting_.async_wait(asio::posix::descriptor_base::wait_write,
                        [self = shared_from_this()](const auto& problem) {
                          if (!problem)
                            self->connected();
                        });
    timer_.expires_after(std::min(left(), longest_attempt));
    timer_.async_wait([self = shared_from_this()](const auto& problem) {
      if (!problem && self->waiting_.is_open()) {
        self->waiting_.release();
        self->drop("no answer");
      }
    });
  }

 private:
  milliseconds left() const {
    return std::max(milliseconds(1), std::chrono::duration_cast<milliseconds>(
                                       until_ - clock::now()));
  }

  void connected() {
    if (!waiting_.is_open())
      return;
    timer_.cancel();
    waiting_.release();
    int problem = 0;
    socklen_t size = sizeof(problem);
    ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &problem, &size);
    problem == 0 ? show() : drop(std::strerror(problem));
  }

  void show() {
    begin_authentication(
      loop_, std::exchange(socket_, -1), link_side::client, trust_,
      std::min(left(), std::clamp(within_ / 4, least_authentication,
                                  most_authentication)),
      {[self = shared_from_this()](stream_pointer stream) {
         self->then_.done(std::move(stream));
       },
       [self = shared_from_this()](const refusal& why) {
         why.answered ? self->give_up(why) : self->again(why.reason);
       }});
  }

  void drop(const std::string& why) {
    ::close(std::exchange(socket_, -1));
    again(why);
  }

  void again(const std::string& why) {
    next_ = (next_ + 1) % addresses_.size();
    if (next_ == 0)
      pause_ = std::min(2 * pause_, longest_pause);
    if (clock::now() + pause_ >= until_)
      return give_up(
        {fmt::format("no link within {} s ({}); check that the process there "
                     "runs and listens at this address, that both were given "
                     "the same credentials, and that no firewall blocks it",
                     static_cast<double>(within_.count()) / 1000, why)});
    timer_.expires_after(next_ == 0 ? pause_ : milliseconds(0));
    timer_.async_wait([self = shared_from_this()](const auto& problem) {
      if (!problem)
        self->attempt();
    });
  }

  void give_up(const refusal& why) {
    then_.failed({fmt::format("{}: {}", to_text(address_), why.reason)});
  }

  io_loop& loop_;
  endpoint address_;
  trust trust_;
  std::vector<socket_address> addresses_;
  milliseconds within_;
  clock::time_point until_;
  authentication_outcome then_;
  asio::posix::stream_descriptor waiting_;  // borrows the socket
  asio::steady_timer timer_;
  std::size_t next_ = 0;
  int socket_ = -1;
  milliseconds pause_ = first_pause / 2;
};

}  // namespace

void dial(io_loop& loop, const endpoint& address, const credentials& shown,
          milliseconds within, std::function<void(stream_pointer)> done,
          std::function<void(const std::string& reason)> failed) {
  auto made = std::make_shared<dialling>(
    loop, address, shown, within,
    authentication_outcome{std::move(done),
                           [failed = std::move(failed)](const refusal& why) {
                             failed(why.reason);
                           }});
  loop.post([made = std::move(made)] { made->attempt(); });
}

}  // namespace troupe
