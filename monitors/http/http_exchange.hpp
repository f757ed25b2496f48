#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/monitors/http/access.hpp"

namespace troupe {

struct http_request {
  std::string method;  // GET for HEAD, too
  std::string path;    // without the query
  std::string query;   // what follows `?`, still encoded
  std::string body;
  access_right right = access_right::none;  // the client's
};

struct http_response {
  unsigned status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body{};
  std::vector<std::pair<std::string, std::string>> headers{};  // further ones
  /// The exchange's lines follow the body until it is finished.
  bool streams = false;
};

http_response json_response(const nlohmann::json& body, unsigned status = 200);
/// `{"error": why}`.
http_response refusal_response(unsigned status, const std::string& why);

/// A request and what its client gets: an answer, and lines after it where the
/// answer streams. Lines wait in a bounded queue, so that a slow client costs
/// no more memory than that. Any thread; nobody waits for the client.
class http_exchange {
 public:
  /// `wake` is called when there is something to send; it must not wait, nor
  /// call the exchange.
  http_exchange(http_request request, std::size_t limit,
                std::function<void()> wake)
    : request_(std::move(request)), limit_(limit), wake_(std::move(wake)) {}

  const http_request& request() const { return request_; }
  /// Answers; only the first answer counts.
  void answer(http_response response);
  /// Queues a line, to which this adds the newline; false: there is no room,
  /// or the client has left.
  bool offer(std::string line);
  /// A line that is never dropped; the caller bounds how many there are.
  void put(std::string line);
  /// No more lines come: the connection ends once the client has all of them.
  void finish();
  /// Whether the client is still there.
  bool is_open() const;
  /// Calls `then` once when the client has left, on the server's thread, and at
  /// once if it has; not after `finish`.
  void when_left(std::function<void()> then);

  // For the session.
  std::optional<http_response> take_answer();
  /// The next lines, about 64 KiB of them; they count until they were `sent`.
  std::string take_lines();
  void sent();
  bool is_finished() const;
  void close();

 private:
  void wake() const;
  bool add(std::string line, bool always);

  const http_request request_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::function<void()> wake_;  // empty: closed
  std::function<void()> left_;
  std::optional<http_response> answer_;
  std::deque<std::string> waiting_;
  std::size_t bytes_ = 0;    // that wait
  std::size_t leaving_ = 0;  // taken and not sent yet
  bool is_answered_ = false, is_finished_ = false;
};
using http_exchange_pointer = std::shared_ptr<http_exchange>;

}  // namespace troupe
