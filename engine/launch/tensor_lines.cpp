#include "troupe/engine/launch/tensor_lines.hpp"

#include <fmt/format.h>

#include "troupe/engine/transport/dial.hpp"
#include "troupe/engine/transport/shared_stream.hpp"

namespace troupe {

tensor_lines::tensor_lines(io_loop& loop, const job_options& options,
                           const meeting_point& point, const loop_guard& guard,
                           added then)
  : loop_(loop),
    options_(options),
    guard_(guard),
    then_(std::move(then)),
    newcomers_(loop, guard),
    acceptor_(accept_at(point.own_lines)),
    near_acceptor_(point.near_lines.empty() ? nullptr
                                            : accept_at(point.near_lines)),
    own_{
      point.announced.empty() ? to_text(acceptor_->where()) : point.announced,
      point.machine, point.near_lines} {}

std::unique_ptr<acceptor> tensor_lines::accept_at(const std::string& where) {
  const auto at = parse_endpoint(where);
  return std::make_unique<acceptor>(
    loop_, at, options_.shown,
    acceptor::events{guard_.over<stream_pointer>(
      [this, is_unix = at.is_unix](stream_pointer stream) {
        take(std::move(stream), is_unix);
      })});
}

void tensor_lines::begin(std::uint64_t run,
                         const std::vector<process_address>& all) {
  run_ = run;
  for (std::int32_t p = 0; p < options_.place.processes; ++p)
    if (p != options_.place.process)
      dial_to(p, all.at(static_cast<std::size_t>(p)));
  for (auto& [hello, with] : std::exchange(early_, {}))
    take(hello, with);
}

void tensor_lines::dial_to(std::int32_t process, const process_address& there) {
  const auto at = parse_endpoint(way_to(there, own_));
  dial(loop_, at, options_.shown, options_.patience,
       guard_.over<stream_pointer>(
         [this, process, is_unix = at.is_unix](stream_pointer stream) {
           auto with = connection::make(
             loop_, as_line(std::move(stream), link_side::client, is_unix));
           with->send(to_frame(line_hello{run_, options_.place.process}));
           ++count_;
           then_(process, line::outgoing, with);
         }),
       [guard = guard_, process](const std::string& reason) {
         guard.fail(
           error_code::transport,
           fmt::format("process {} can't be reached: {}", process, reason));
       });
}

stream_pointer tensor_lines::as_line(stream_pointer stream, link_side side,
                                     bool is_unix) const {
  const bool shared = is_unix && options_.lines == line_kind::shared_memory;
  return shared ? shared_stream(std::move(stream), side) : std::move(stream);
}

void tensor_lines::take(stream_pointer stream, bool is_unix) {
  auto with = connection::make(
    loop_, as_line(std::move(stream), link_side::server, is_unix));
  newcomers_.listen(with, [this, with](const rendezvous_message& said) {
    if (const auto* hello = std::get_if<line_hello>(&said))
      take(*hello, with);
    else
      with->abort();
  });
}

void tensor_lines::take(const line_hello& hello,
                        const connection_pointer& with) {
  if (run_ == 0) {
    early_.emplace_back(hello, with);
    return;
  }
  const auto& place = options_.place;
  const bool expected =
    hello.run == run_ && hello.process >= 0 && hello.process < place.processes
    && hello.process != place.process && came_in_.insert(hello.process).second;
  if (!expected)
    return with->abort();
  ++count_;
  then_(hello.process, line::incoming, with);
}

}  // namespace troupe
