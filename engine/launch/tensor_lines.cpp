#include "troupe/engine/launch/tensor_lines.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/engine/launch/rendezvous_stream.hpp"
#include "troupe/engine/transport/stream/shared_stream.hpp"

namespace troupe {

namespace asio = boost::asio;

tensor_lines::tensor_lines(const asio::any_io_executor& on,
                           const job_options& options,
                           const meeting_point& point,
                           std::function<asio::awaitable<void>()> complete)
  : on_(on),
    options_(options),
    complete_(std::move(complete)),
    newcomers_(most_newcomers(options.place)),
    acceptor_(accept_at(parse_endpoint(point.own_lines))),
    own_{point.announced.empty() ? to_text(acceptor_->where())
                                 : point.announced} {
  if (!acceptor_->where().is_unix)
    listen_near();
}

bool tensor_lines::tells_for_machine() const {
  const auto& place = options_.place;
  return options_.news
         && (place.process == 0
             || (place.local_process == 0 && place.local_processes > 1));
}

/// If this fails, the machine's processes are connected by TCP.
void tensor_lines::listen_near() {
  try {
    const auto point = near_point_of(options_);
    if (!point)
      return;
    near_acceptor_ = accept_at(parse_endpoint(point->where));
    own_.machine = point->machine;
    own_.near = point->where;
  } catch (const error& reason) {
    if (tells_for_machine())
      options_.news(fmt::format(
        "the processes of this machine are joined by TCP: {}", reason.what()));
  }
}

std::unique_ptr<acceptor> tensor_lines::accept_at(const endpoint& address) {
  return std::make_unique<acceptor>(
    on_, address, options_.shown,
    acceptor::events{[this, is_unix = address.is_unix](stream_pointer stream) {
      const auto from =
        std::make_shared<awaited_stream>(on_, std::move(stream));
      spawn(on_, [this, from, is_unix] { return identify(from, is_unix); });
    }});
}

void tensor_lines::begin(std::uint64_t run,
                         const std::vector<process_address>& all) {
  run_ = run;
  bool may_share = false;
  for (std::int32_t p = 0; p < options_.place.processes; ++p) {
    if (p == options_.place.process)
      continue;
    const auto& there = all.at(static_cast<std::size_t>(p));
    const auto address = parse_endpoint(way_to(there, own_));
    may_share |= address.is_unix;
    spawn(on_, [this, p, address] { return go_to(p, address); });
  }
  if (!may_share && options_.lines == line_kind::shared_memory
      && tells_for_machine())
    options_.news(
      "--link shared has no effect here: this process is connected to all "
      "others over TCP");
  for (const auto& each : std::exchange(early_, {}))
    spawn(on_, [this, each] { return take(each); });
}

asio::awaitable<void> tensor_lines::go_to(std::int32_t process,
                                          endpoint address) {
  auto stream =
    co_await reach(process, address, options_.shown, options_.patience);
  awaited_stream to(on_, std::move(stream));
  co_await say(to, line_hello{run_, options_.place.process});
  co_await add(process, line::outgoing, to.take(), address.is_unix);
}

asio::awaitable<void> tensor_lines::identify(
  std::shared_ptr<awaited_stream> from, bool is_unix) {
  constexpr std::uint32_t most_bytes = 1024;
  const auto hello =
    co_await newcomers_.hear_first<line_hello>(from, most_bytes);
  if (!hello)
    co_return;
  // With a name, as GCC 12 destroys an aggregate without one, in an expression
  // of co_await, twice.
  const identified_line line{*hello, from, is_unix};
  if (run_ != 0)
    co_return co_await take(line);
  if (early_.size() >= most_newcomers(options_.place))
    early_.pop_front();
  early_.push_back(line);
}

asio::awaitable<void> tensor_lines::take(identified_line which) {
  const auto& place = options_.place;
  const auto process = which.hello.process;
  const bool expected = which.hello.run == run_ && process >= 0
                        && process < place.processes && process != place.process
                        && came_in_.insert(process).second;
  if (expected)
    co_await add(process, line::incoming, which.from->take(), which.is_unix);
}

asio::awaitable<void> tensor_lines::add(std::int32_t process, line purpose,
                                        stream_pointer stream, bool is_unix) {
  if (is_unix && options_.lines == line_kind::shared_memory)
    stream = shared_stream(std::move(stream), purpose == line::outgoing
                                                ? link_side::client
                                                : link_side::server);
  lines_.push_back({process, purpose, std::move(stream)});
  if (are_complete())
    co_await complete_();
}

}  // namespace troupe
