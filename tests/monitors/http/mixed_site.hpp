#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "../../temporary_folder.hpp"
#include "http_client.hpp"
#include "troupe/monitors/http/http_caller.hpp"
#include "troupe/monitors/http/http_server.hpp"
#include "troupe/monitors/http/http_site.hpp"

namespace troupe::testing {

inline const access_tokens tokens{.watch = "a-token-to-watch-with",
                                  .control = "a-token-to-control-with"};

/// A site with a resource of each kind. It keeps the exchanges that stream.
struct mixed_site {
  explicit mixed_site(const http_options& options = {},
                      const access_tokens& required = {})
    : site(std::make_shared<http_site>(required)),
      added(site->add(resources())),
      server(options, site) {}
  ~mixed_site() { server.close(); }

  std::vector<http_resource> resources() {
    using enum access_right;
    const auto echo = at_once([](const http_request& request) {
      return http_response{.body = request.method + " " + request.body};
    });
    return {{"GET", "/page", page, echo},
            {"GET", "/watch", watch, echo},
            {"POST", "/control", control, echo},
            {"POST", "/open", page, echo},
            {"GET", "/stream", page,
             [this](const http_exchange_pointer& exchange) {
               exchange->when_left([this] { ++departed; });
               exchange->answer({.body = "first\n", .streams = true});
               const std::scoped_lock lock(mutex);
               streams.push_back(exchange);
             },
             true}};
  }
  http_exchange_pointer stream(std::size_t which = 0) {
    soon([&] {
      const std::scoped_lock lock(mutex);
      return streams.size() > which;
    });
    const std::scoped_lock lock(mutex);
    return streams.at(which);
  }
  std::string where() const { return server.address(); }

  std::mutex mutex;
  std::vector<http_exchange_pointer> streams;
  std::atomic<int> departed = 0;
  http_site_pointer site;
  std::shared_ptr<void> added;
  http_server server;
};

/// A site at a unix socket, and calls to it.
struct unix_site {
  explicit unix_site(const access_tokens& required = {})
    : at({.address = "unix:" + (folder / "s")}, required) {}

  http_answer call(const std::string& method, const std::string& path,
                   const std::string& token = {}) const {
    http_caller caller({parse_endpoint(at.where()), {}, token}, 10);
    return caller.call(method, path, method == "POST" ? "{}" : "");
  }
  unsigned status(const std::string& method, const std::string& path,
                  const std::string& token = {}) const {
    return call(method, path, token).status;
  }
  std::string say(const std::string& bytes) const {
    return ask(at.where(), bytes);
  }

  temporary_folder folder;
  mixed_site at;
};

}  // namespace troupe::testing
