#include "troupe/engine/launch/tensor_lines.hpp"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "troupe/engine/transport/stream/dial.hpp"
#include "troupe/engine/transport/stream/shared_stream.hpp"

namespace troupe {

tensor_lines::tensor_lines(io_loop& loop, const job_options& options,
                           const meeting_point& point, const loop_guard& guard,
                           added then)
  : loop_(loop),
    options_(options),
    guard_(guard),
    then_(std::move(then)),
    pending_(loop, guard),
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
    loop_, address, shown,
    acceptor::events{guard_.over<stream_pointer>(
      [this, is_unix = address.is_unix](stream_pointer stream) {
        take(std::move(stream), is_unix);
      })});
}

void tensor_lines::begin(std::uint64_t run,
                         const std::vector<process_address>& all) {
  run_ = run;
  bool may_share = false;
  for (std::int32_t p = 0; p < options_.place.processes; ++p)
    if (p != options_.place.process)
      may_share |= dial_to(p, all.at(static_cast<std::size_t>(p))).is_unix;
  if (!may_share && options_.lines == line_kind::shared_memory
      && tells_for_machine())
    options_.news(
      "--link shared has no effect here: this process is connected to all "
      "others over TCP");
  for (auto& [hello, peer] : std::exchange(early_, {}))
    take(hello, peer);
}

endpoint tensor_lines::dial_to(std::int32_t process,
                               const process_address& there) {
  const auto& way = way_to(there, own_);
  const auto address = parse_endpoint(way);
  const auto shown = way == there.near ? shown_near() : options_.shown;
  dial(loop_, address, shown, options_.patience,
       guard_.over<stream_pointer>(
         [this, process, is_unix = address.is_unix](stream_pointer stream) {
           auto peer = connection::make(
             loop_, as_line(std::move(stream), link_side::client, is_unix));
           peer->send(to_frame(line_hello{run_, options_.place.process}));
           ++count_;
           then_(process, line::outgoing, peer);
         }),
       [guard = guard_, process](const std::string& reason) {
         guard.fail(
           error_code::transport,
           fmt::format("process {} can't be reached: {}", process, reason));
       });
  return address;
}

stream_pointer tensor_lines::as_line(stream_pointer stream, link_side side,
                                     bool is_unix) const {
  const bool shared = is_unix && options_.lines == line_kind::shared_memory;
  return shared ? shared_stream(std::move(stream), side) : std::move(stream);
}

void tensor_lines::take(stream_pointer stream, bool is_unix) {
  auto peer = connection::make(
    loop_, as_line(std::move(stream), link_side::server, is_unix));
  pending_.listen(peer, [this, peer](const rendezvous_message& said) {
    if (const auto* hello = std::get_if<line_hello>(&said))
      take(*hello, peer);
    else
      peer->abort();
  });
}

void tensor_lines::take(const line_hello& hello,
                        const connection_pointer& peer) {
  if (run_ == 0) {
    early_.emplace_back(hello, peer);
    return;
  }
  const auto& place = options_.place;
  const bool expected =
    hello.run == run_ && hello.process >= 0 && hello.process < place.processes
    && hello.process != place.process && came_in_.insert(hello.process).second;
  if (!expected)
    return peer->abort();
  ++count_;
  then_(hello.process, line::incoming, peer);
}

void pending_connections::listen(
  const connection_pointer& peer,
  std::function<void(const rendezvous_message&)> then) {
  all_.insert(peer);
  connection_events each;
  each.limits = {.head_bytes = 1U << 20, .tensor_bytes = 0};
  auto heard = std::make_shared<bool>(false);
  each.arrived = [this, guard = guard_, peer, then = std::move(then),
                  heard](frame what) {
    if (guard.has_ended() || std::exchange(*heard, true))
      return;
    loop_.post(guard.over([this, peer, then, said = read_rendezvous(what)] {
      all_.erase(peer);
      then(said);
    }));
  };
  each.lost = [this, guard = guard_, peer](const std::string&) {
    if (!guard.has_ended())
      all_.erase(peer);
  };
  peer->start(std::move(each));
}

}  // namespace troupe
