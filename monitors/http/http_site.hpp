#pragma once

#include <functional>
#include <memory>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/monitors/http/access.hpp"
#include "troupe/monitors/http/http_exchange.hpp"
#include "troupe/monitors/http/serving.hpp"

namespace troupe {

/// Answers an exchange, now or later. Servers' threads call it, so it must not
/// block for long. An exception becomes the answer (`response_to_error`).
using http_handler = std::function<void(const http_exchange_pointer&)>;

/// A handler whose answer is there at once.
http_handler at_once(
  std::function<http_response(const http_request& request)> respond);

/// Thrown by a handler in place of an answer: a status and a sentence.
class refused_request : public std::runtime_error {
 public:
  refused_request(unsigned status, const std::string& why)
    : std::runtime_error(why), status(status) {}
  unsigned status;
};

/// The answer that tells of the exception that is being handled: the status of
/// a `refused_request`, 403 for a `missing_right`, 400 for another `error`
/// about what was asked for, 409 for what does not fit the job, else 500.
http_response response_to_error();

struct http_resource {
  std::string method;  // GET, which also answers HEAD, POST or DELETE
  std::string path;    // ending in `/*`: all paths that begin so
  access_right needs = access_right::watch;
  http_handler answer;
  bool streams = false;  // there is no HEAD
};

/// What a process serves over HTTP, at each address of its servers. Any thread.
class http_site {
 public:
  /// `tokens` give clients their rights at all addresses. Throws
  /// `invalid_argument` for tokens that are short or equal.
  explicit http_site(access_tokens tokens = {});

  const access_tokens& tokens() const { return tokens_; }
  /// Removes the resources when it goes; then none of their handlers runs any
  /// more. The first of several resources of one path answers.
  std::shared_ptr<void> add(std::vector<http_resource> resources);

  /// Why a request of this method, as it was sent, is not answered (status 404
  /// or 405); none: its resource is `found`.
  std::optional<http_response> find(std::string_view method,
                                    std::string_view path,
                                    access_right& needs) const;
  /// Lets the resource's handler answer.
  void answer(const http_exchange_pointer& exchange) const;

 private:
  using resource_list = std::vector<http_resource>;
  struct state {
    mutable std::shared_mutex mutex;
    std::vector<std::shared_ptr<const resource_list>> all;
  };
  std::vector<const http_resource*> at(std::string_view path) const;

  const access_tokens tokens_;
  const std::shared_ptr<state> state_ = std::make_shared<state>();
};
/// Decodes `a=1&b=%20`, with `+` for a space. Throws `refused_request` for what
/// is no query, and for a name that comes twice.
std::vector<std::pair<std::string, std::string>> parse_query(
  std::string_view query);

/// A page whose style and script are inside, with a nonce in place of each
/// `@nonce@`: a browser runs nothing else, and asks this server alone.
http_response page_response(std::string_view page);

}  // namespace troupe
