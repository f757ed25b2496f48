#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "troupe/engine/events/subscription.hpp"

namespace troupe {

/// A line streamed by a live job; `type` is event, alert, metrics, printed or
/// ended.
struct live_message {
  std::string type;
  std::int64_t monitor = 0;  // as returned by `attach` or `watch`
  nlohmann::json content;
};

class http_caller;

/// A client of a live job's endpoint (docs/endpoint.md), with a connection for
/// each request and each stream. One thread uses it; `interrupt` from any.
class live_client {
 public:
  /// Looks how the job is. Throws `invalid_argument` for an endpoint that is
  /// none, or tcp without a token; `transport` where nobody answers within
  /// `patience` seconds, or another version of troupe does.
  explicit live_client(const std::string& endpoint,
                       const std::string& token = {}, double patience = 5);
  ~live_client();
  live_client(live_client&&) noexcept;

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
  bool ended() const;

  /// Every call that waits, now or later, throws `interrupted`.
  void interrupt();

 private:
  attached_monitor open(const std::string& path, const nlohmann::json& body);

  std::unique_ptr<http_caller> caller_;
  std::map<std::size_t, std::int64_t> monitors_;  // by their streams
  nlohmann::json health_;
};

}  // namespace troupe
