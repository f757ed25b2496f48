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
    acceptor_(accept_at(parse_endpoint(point.own_lines), options.shown)),
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
    near_acceptor_ = accept_at(parse_endpoint(point->where), shown_near());
    own_.machine = point->machine;
    own_.near = point->where;
  } catch (const error& reason) {
    if (tells_for_machine())
      options_.news(fmt::format(
        "the processes of this machine are joined by TCP: {}", reason.what()));
  }
}

/// Certificates apply to TCP; a token beside them may be this process's own.
credentials tensor_lines::shown_near() const {
  auto shown = options_.shown;
  if (!shown.certificates.empty())
    shown.token.clear();
  return shown;
}

std::unique_ptr<acceptor> tensor_lines::accept_at(const endpoint& address,
                                                  const credentials& shown) {
  return std::make_unique<acceptor>(
    on_, address, shown,
    acceptor::events{[this, is_unix = address.is_unix](stream_pointer stream) {
      take(std::make_shared<awaited_stream>(on_, std::move(stream)), is_unix);
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
    const auto& way = way_to(there, own_);
    const auto address = parse_endpoint(way);
    may_share |= address.is_unix;
    spawn(on_, [this, p, address,
                shown = way == there.near ? shown_near() : options_.shown] {
      return go_to(p, address, shown);
    });
  }
  if (!may_share && options_.lines == line_kind::shared_memory
      && tells_for_machine())
    options_.news(
      "--link shared has no effect here: this process is connected to all "
      "others over TCP");
  for (const auto& [from, is_unix] : std::exchange(early_, {}))
    take(from, is_unix);
}

asio::awaitable<void> tensor_lines::go_to(std::int32_t process,
                                          endpoint address, credentials shown) {
  auto stream = co_await reach(process, address, shown, options_.patience);
  awaited_stream to(on_, std::move(stream));
  co_await say(to, line_hello{run_, options_.place.process});
  co_await add(process, line::outgoing, to.take(), address.is_unix);
}

void tensor_lines::take(const std::shared_ptr<awaited_stream>& from,
                        bool is_unix) {
  if (run_ == 0)
    early_.emplace_back(from, is_unix);
  else
    spawn(on_, [this, from, is_unix] { return identify(from, is_unix); });
}

asio::awaitable<void> tensor_lines::identify(
  std::shared_ptr<awaited_stream> from, bool is_unix) {
  const auto hello = co_await hear_first<line_hello>(*from);
  const auto& place = options_.place;
  const bool expected = hello && hello->run == run_ && hello->process >= 0
                        && hello->process < place.processes
                        && hello->process != place.process
                        && came_in_.insert(hello->process).second;
  if (expected)
    co_await add(hello->process, line::incoming, from->take(), is_unix);
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
