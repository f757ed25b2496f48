#include "troupe/monitors/http/http_site.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "troupe/base/error.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/device/thrown.hpp"

namespace troupe {

namespace {

bool covers(const std::string& pattern, std::string_view path) {
  return pattern.ends_with("/*")
           ? path.starts_with(pattern.substr(0, pattern.size() - 1))
           : path == pattern;
}

bool takes(const http_resource& resource, std::string_view method) {
  return method == resource.method
         || (method == "HEAD" && resource.method == "GET" && !resource.streams);
}

unsigned status_of(error_code code) {
  switch (code) {
    case error_code::invalid_argument:
    case error_code::unknown_schedule:
    case error_code::malformed_text:
      return 400;
    case error_code::invalid_schedule:
    case error_code::deadlock:
    case error_code::mismatch:
      return 409;
    default:
      return 500;
  }
}

/// The decoded text; none where it is not encoded rightly.
std::optional<std::string> decoded(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      plain += text[i] == '+' ? ' ' : text[i];
      continue;
    }
    const auto digits = text.substr(i + 1, 2);
    unsigned value = 0;
    const auto end = digits.data() + digits.size();
    if (digits.size() < 2
        || std::from_chars(digits.data(), end, value, 16).ptr != end)
      return std::nullopt;
    plain += static_cast<char>(value);
    i += 2;
  }
  return plain;
}

}  // namespace

http_handler at_once(
  std::function<http_response(const http_request&)> respond) {
  return [respond = std::move(respond)](const http_exchange_pointer& exchange) {
    exchange->answer(respond(exchange->request()));
  };
}

http_response response_to_error() {
  try {
    throw;
  } catch (const refused_request& refused) {
    return refusal_response(refused.status, refused.what());
  } catch (const missing_right& denied) {
    return refusal_response(403, denied.what());
  } catch (const error& problem) {
    return refusal_response(status_of(problem.code()), problem.what());
  } catch (...) {
    return refusal_response(500, thrown_text());
  }
}

http_site::http_site(access_tokens tokens) : tokens_(std::move(tokens)) {
  require_legal(tokens_);
}

std::shared_ptr<void> http_site::add(std::vector<http_resource> resources) {
  const auto added =
    std::make_shared<const resource_list>(std::move(resources));
  const std::scoped_lock lock(state_->mutex);
  state_->all.push_back(added);
  return {nullptr, [state = state_, added](void*) {
            const std::scoped_lock removing(state->mutex);
            std::erase(state->all, added);
          }};
}

/// The resources of a path; the caller has the lock.
std::vector<const http_resource*> http_site::at(std::string_view path) const {
  std::vector<const http_resource*> all;
  for (const auto& list : state_->all)
    for (const auto& each : *list)
      if (covers(each.path, path))
        all.push_back(&each);
  return all;
}

std::optional<http_response> http_site::find(std::string_view method,
                                             std::string_view path,
                                             access_right& needs) const {
  const std::shared_lock lock(state_->mutex);
  const auto all = at(path);
  if (all.empty())
    return refusal_response(
      404, fmt::format("there is no {} here", printable(std::string(path))));
  for (const auto* each : all)
    if (takes(*each, method)) {
      needs = each->needs;
      return std::nullopt;
    }
  std::vector<std::string> methods;
  for (const auto* each : all) {
    methods.push_back(each->method);
    if (takes(*each, "HEAD"))
      methods.emplace_back("HEAD");
  }
  const auto allowed = fmt::format("{}", fmt::join(methods, ", "));
  auto refused = refusal_response(
    405, fmt::format("{} answers {}", printable(std::string(path)), allowed));
  refused.headers = {{"Allow", allowed}};
  return refused;
}

void http_site::answer(const http_exchange_pointer& exchange) const {
  const auto& request = exchange->request();
  const std::shared_lock lock(state_->mutex);
  try {
    for (const auto* each : at(request.path))
      if (each->method == request.method)
        return each->answer(exchange);
    throw refused_request(404, "it is no longer served");
  } catch (...) {
    exchange->answer(response_to_error());
  }
}

std::vector<std::pair<std::string, std::string>> parse_query(
  std::string_view query) {
  std::vector<std::pair<std::string, std::string>> all;
  while (!query.empty()) {
    const auto part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const auto equals = std::min(part.find('='), part.size());
    const auto name = decoded(part.substr(0, equals));
    const auto value = decoded(part.substr(std::min(part.size(), equals + 1)));
    if (!name || !value || name->empty() || equals == part.size())
      throw refused_request(400,
                            fmt::format("'{}' in the query is not NAME=VALUE",
                                        printable(std::string(part))));
    if (std::ranges::count(all, *name,
                           &std::pair<std::string, std::string>::first)
        > 0)
      throw refused_request(
        400, fmt::format("'{}' occurs twice in the query", printable(*name)));
    all.emplace_back(*name, *value);
  }
  return all;
}

http_response page_response(std::string_view page) {
  constexpr std::string_view place = "@nonce@";
  const auto nonce = random_digits(4);
  std::string body(page);
  for (auto at = body.find(place); at != std::string::npos;
       at = body.find(place, at))
    body.replace(at, place.size(), nonce);
  return {
    .type = "text/html; charset=utf-8",
    .body = std::move(body),
    .headers = {
      {"Content-Security-Policy",
       fmt::format("default-src 'none'; script-src 'nonce-{0}'; style-src "
                   "'nonce-{0}'; img-src data:; connect-src 'self'; base-uri "
                   "'none'; form-action 'none'; frame-ancestors 'none'",
                   nonce)},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Resource-Policy", "same-origin"}}};
}

}  // namespace troupe
