#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/engine/events/subscription.hpp"
#include "troupe/monitors/http/http_call.hpp"

namespace troupe {

/// A line streamed by a live job; `type` is event, alert, metrics, printed or
/// ended.
struct live_message {
  std::string type;
  std::int64_t monitor = 0;  // as returned by `attach` or `watch`
  nlohmann::json content;
};

/// A client of a live job's endpoint (docs/endpoint.md), with a connection for
/// each request and each stream. One thread uses it; `interrupt` from any.
class live_client {
 public:
  /// Looks how the job is. Throws `invalid_argument` for an endpoint that is
  /// none, or tcp without a token; `transport` where nobody answers within
  /// `patience` seconds, or another version of troupe does.
  explicit live_client(const std::string& endpoint,
                       const std::string& token = {}, double patience = 5);

  /// The answer to `GET /health` when this connected.
  const nlohmann::json& health() const { return health_; }
  /// The plan's text form.
  std::string plan();
  /// A request; its answer is JSON. Throws `invalid_argument` or `transport` as
  /// the job answers, `transport` if it does not within the patience,
  /// `interrupted`.
  nlohmann::json request(std::string_view method, const std::string& path,
                         const nlohmann::json& body = nullptr);
  /// A monitor, by its id, and the folder on the job's machine that it writes
  /// in; empty: it writes no files.
  struct attached_monitor {
    std::int64_t id = 0;
    std::string folder{};
    operator std::int64_t() const { return id; }  // NOLINT: converts
  };
  /// A monitor that is not kept streams to this client, until that goes.
  attached_monitor attach(const std::string& spec, bool keep = false);
  std::int64_t watch(const subscription& wants);
  void detach(std::int64_t id);

  /// The next streamed message, waiting for at most so many seconds; empty if
  /// none came, or all streams have `ended`. Throws `transport` for what is no
  /// stream of a job, `interrupted`.
  std::optional<live_message> next(double seconds);
  /// Calls `see` until it returns false (true), or all streams have ended
  /// (false). Throws as `next` does.
  bool stream(const std::function<bool(const live_message&)>& see);
  bool ended() const { return streams_.empty(); }

  /// Whatever waits now, or later, throws `interrupted`.
  void interrupt() { ended_->raise(); }

 private:
  struct open_stream {
    std::int64_t monitor;
    http_call call;
  };

  http_call call(std::string_view method, const std::string& path,
                 const std::string& body) const;
  attached_monitor open(const std::string& path, const nlohmann::json& body);
  std::optional<live_message> message_there();
  void wait(const deadline& until) const;

  double patience_;
  http_target target_;
  std::unique_ptr<interruption> ended_ = std::make_unique<interruption>();
  nlohmann::json health_;
  std::vector<open_stream> streams_;
};

}  // namespace troupe
