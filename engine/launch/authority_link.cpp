#include "troupe/engine/launch/authority_link.hpp"

#include <boost/asio/io_context.hpp>
#include <memory>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/engine/launch/etcd/elected_authority.hpp"
#include "troupe/engine/transport/stream/awaited_stream.hpp"
#include "troupe/engine/transport/stream/dial.hpp"
#include "troupe/engine/transport/trust/trust.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds connect_within{1000};
constexpr std::chrono::milliseconds connect_every{200};
/// How long the goodbye of a job that is done waits for an authority.
constexpr std::chrono::milliseconds goodbye_within{2000};

/// Finds the authority; to be called on one thread.
std::function<endpoint()> finder_of(const std::string& address,
                                    const credentials& shown) {
  const auto require_trust = [&](const std::string& where) {
    choose_trust(parse_endpoint(where), shown);  // throws
  };
  if (!names_etcd(address)) {
    require_trust(address);
    return [where = parse_endpoint(address)] { return where; };
  }
  auto options = parse_etcd(address);
  require_trust("tcp:" + options.servers.front());
  return [etcd = std::make_shared<etcd_client>(std::move(options))] {
    return elected_authority(*etcd);
  };
}

/// Runs on this thread until it is connected.
stream_pointer connect_to(const endpoint& address, const credentials& shown) {
  asio::io_context here(1);
  stream_pointer stream;
  spawn(here.get_executor(), [&]() -> asio::awaitable<void> {
    stream = co_await dial(address, shown, connect_within);
  });
  here.run();
  return stream;
}

}  // namespace

authority_link::authority_link(io_loop& loop, const std::string& address,
                               credentials shown,
                               authority_link_events handlers)
  : loop_(loop),
    address_(address),
    find_(finder_of(address, shown)),
    shown_(std::move(shown)),
    events_(std::move(handlers)),
    lost_since_(clock::now()),
    connector_([this] { keep_connected(); }) {}

authority_link::~authority_link() {
  stop_connecting();
  connector_.join();
  loop_.run([this] {
    const std::scoped_lock lock(mutex_);
    if (link_)
      link_->abort();
  });
  loop_.run([] {});  // its events are over
}

void authority_link::send(const membership_message& message) {
  const std::scoped_lock lock(mutex_);
  if (link_)
    link_->send(to_frame(message));
}

endpoint authority_link::where() const {
  const std::scoped_lock lock(mutex_);
  return where_;
}

std::optional<clock::time_point> authority_link::lost_since() const {
  const std::scoped_lock lock(mutex_);
  return link_ ? std::nullopt : std::optional(lost_since_);
}

void authority_link::require_within(std::chrono::milliseconds longest) const {
  if (const auto since = lost_since(); since && clock::now() - *since > longest)
    fail(error_code::transport, "the job's authority at {} is lost: {}",
         address_, trouble());
}

std::string authority_link::trouble() const {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

void authority_link::stop_connecting() {
  const std::scoped_lock lock(mutex_);
  is_over_ = true;
  changed_.notify_all();
}

void authority_link::finish() {
  constexpr std::chrono::milliseconds look{2};
  connection_pointer last;
  {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, goodbye_within,
                      [this] { return link_ || is_over_; });
    is_over_ = true;
    changed_.notify_all();
    last = link_;
  }
  if (!last)
    return;
  last->close();
  for (int i = 0; i < 100 && !last->is_closed(); ++i)
    std::this_thread::sleep_for(look);
}

void authority_link::keep_connected() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return is_over_ || !link_; });
    if (is_over_)
      return;
    lock.unlock();
    auto trouble = connect();
    lock.lock();
    if (trouble.empty())
      continue;
    trouble_ = std::move(trouble);
    changed_.wait_for(lock, connect_every, [this] { return is_over_; });
  }
}

/// Returns why there is no connection.
std::string authority_link::connect() {
  try {
    const auto where = find_();
    auto stream = connect_to(where, shown_);
    {
      const std::scoped_lock lock(mutex_);
      where_ = where;
    }
    loop_.run([&] { start(connection::make(loop_, std::move(stream))); });
    return {};
  } catch (const std::exception& reason) {
    return reason.what();
  }
}

/// On the loop's thread.
void authority_link::start(connection_pointer fresh) {
  fresh->send(to_frame(events_.request()));
  connection_events handlers;
  handlers.arrived = [this](const frame& what) {
    events_.arrived(read_membership(what));
  };
  handlers.lost = [this, by = fresh.get()](const std::string& reason) {
    {
      const std::scoped_lock lock(mutex_);
      if (link_.get() != by)
        return;
      trouble_ = reason.empty() ? "it has ended" : reason;
      lost_since_ = clock::now();
      link_.reset();
      changed_.notify_all();
    }
    events_.lost();
  };
  {
    const std::scoped_lock lock(mutex_);
    link_ = fresh;
    changed_.notify_all();
  }
  fresh->start(std::move(handlers));
}

}  // namespace troupe
