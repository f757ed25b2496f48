#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/base/deadline.hpp"
#include "troupe/base/owned_descriptor.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/stream/byte_stream.hpp"
#include "troupe/engine/transport/trust/trust.hpp"
#include "troupe/monitors/live/frame.hpp"

namespace troupe {

/// A connection on which nothing waits beyond a deadline. One thread uses it;
/// `interrupt` from any.
class stream_socket {
 public:
  /// Throws `transport` where nobody listens, or who does is not to be
  /// trusted.
  stream_socket(const endpoint& address, const deadline& until,
                const trust& trusted = {});

  enum class outcome : std::uint8_t { bytes, late, ended };
  /// Appends what comes. Throws `interrupted`.
  outcome read(std::string& target, const deadline& until);
  /// All of it. Throws `transport`, `interrupted`.
  void write(std::string_view bytes, const deadline& until);
  void interrupt();

 private:
  bool connect(const socket_address& target, const deadline& until);
  void introduce(const endpoint& address, const trust& trusted,
                 const deadline& until);
  bool wait_for(short what, const deadline& until);
  bool wait_for(stream_progress::state need, const deadline& until);

  int handle_ = -1;  // the stream's, once that is there
  owned_descriptor wake_;
  stream_pointer stream_;
};

/// A message streamed by a live job; `type` is event, alert, metrics, printed
/// or ended.
struct live_message {
  live_type type = live_type::event;
  std::int64_t monitor = 0;  // as answered to `attach` or `events`
  nlohmann::json content;
};

/// A connection to a live job. One thread uses it; `interrupt` from any.
class live_client {
 public:
  /// Connects and says hello. Throws `invalid_argument` for an endpoint that
  /// is none, `transport` where nobody answers within `patience` seconds, or
  /// with the job's refusal.
  explicit live_client(const std::string& endpoint,
                       const std::string& token = {}, double patience = 5);

  /// One of the requests of attached_monitors.hpp. Throws `invalid_argument` or
  /// `transport` as the job answers, `transport` if it does not within the
  /// patience, `interrupted`.
  nlohmann::json request(const nlohmann::json& what);
  /// A monitor, by its id, and the folder on the job's machine that it writes
  /// in; empty: it writes no files.
  struct attached_monitor {
    std::int64_t id = 0;
    std::string folder{};
    operator std::int64_t() const { return id; }  // NOLINT: converts
  };
  attached_monitor attach(const std::string& spec, bool keep = false);
  std::int64_t watch(const subscription& wants);
  void detach(std::int64_t id);

  /// The next streamed message, waiting for at most so many seconds; empty if
  /// none came, or the job has ended the connection (`ended`). Throws
  /// `transport` for what is none of the protocol, `interrupted`.
  std::optional<live_message> next(double seconds);
  /// Calls `see` until it returns false (true), or the job ends the connection
  /// (false). Throws as `next` does.
  bool stream(const std::function<bool(const live_message&)>& see);
  bool ended() const { return ended_ && waiting_.empty(); }

  /// Whatever waits now, or later, throws `interrupted`.
  void interrupt() { socket_.interrupt(); }

 private:
  std::optional<live_frame> read(const deadline& until);
  live_frame read_answer(live_type wanted);
  void keep(const live_frame& frame);

  std::string endpoint_;
  double patience_;
  deadline until_;  // for the answer that is waited for
  stream_socket socket_;
  frame_parser parser_;
  std::deque<live_message> waiting_;
  bool ended_ = false;
  bool welcomed_ = false;
};

}  // namespace troupe
