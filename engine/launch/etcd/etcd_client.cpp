#include "troupe/engine/launch/etcd/etcd_client.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cstdlib>
#include <exception>
#include <sstream>
#include <utility>

#include "troupe/base/fail.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/log_text.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

namespace troupe {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using nlohmann::json;

constexpr auto scheme = "etcd://";
constexpr auto tls_scheme = "etcds://";

std::string to_base64(const std::string& bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3) + 1, '\0');
  const auto size =
    EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                    reinterpret_cast<const unsigned char*>(bytes.data()),
                    static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::string from_base64(const std::string& text) {
  std::string bytes(3 * text.size() / 4 + 3, '\0');
  const auto size =
    EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                    reinterpret_cast<const unsigned char*>(text.data()),
                    static_cast<int>(text.size()));
  if (size < 0)
    fail(error_code::transport, "etcd sent a value that is not in base 64");
  // The padding counts as zeros.
  const auto padding = text.ends_with("==")  ? 2U
                       : text.ends_with('=') ? 1U
                                             : 0U;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

/// Its gateway writes numbers of 64 bits as texts, and leaves zeros out.
std::int64_t number(const json& object, const char* name) {
  const auto place = object.find(name);
  if (place == object.end())
    return 0;
  const auto value = place->is_string()
                       ? parse_number<std::int64_t>(place->get<std::string>())
                       : json_as<std::int64_t>(*place);
  if (!value)
    fail(error_code::transport, "etcd sent a '{}' that is no number", name);
  return *value;
}

std::string text(const json& object, const char* name) {
  const auto place = object.find(name);
  return place != object.end() && place->is_string() ? place->get<std::string>()
                                                     : std::string{};
}

template <class Stream>
asio::awaitable<http::response<http::string_body>> exchange(
  Stream& stream, const http::request<http::string_body>& request) {
  co_await http::async_write(stream, request, asio::use_awaitable);
  beast::flat_buffer buffer;
  http::response<http::string_body> answer;
  co_await http::async_read(stream, buffer, answer, asio::use_awaitable);
  co_return answer;
}

}  // namespace

bool names_etcd(const std::string& address) {
  return address.starts_with(scheme) || address.starts_with(tls_scheme);
}

etcd_options parse_etcd(
  const std::string& address,
  const std::function<std::optional<std::string>(const std::string& name)>&
    variable) {
  etcd_options options;
  options.uses_tls = address.starts_with(tls_scheme);
  auto rest = address.substr(
    std::string_view(options.uses_tls ? tls_scheme : scheme).size());
  const auto slash = rest.find('/');
  options.job = slash == std::string::npos ? "" : rest.substr(slash + 1);
  if (options.job.empty() || options.job.find('/') != std::string::npos)
    fail(error_code::invalid_argument,
         "{}: give the servers and a name of the job, as in "
         "etcd://HOST:2379,HOST:2379/JOB",
         address);
  std::istringstream servers(rest.substr(0, slash));
  for (std::string server; std::getline(servers, server, ',');) {
    const bool has_port = server.find(':') != std::string::npos;
    const auto where = has_port ? server : server + ":2379";
    parse_endpoint("tcp:" + where);  // throws
    options.servers.push_back(where);
  }
  if (options.servers.empty())
    fail(error_code::invalid_argument, "{}: there is no server in it", address);
  const auto user = variable("ETCDCTL_USER").value_or("");
  options.user = user.substr(0, user.find(':'));
  if (options.user.size() < user.size())
    options.password = user.substr(options.user.size() + 1);
  options.ca_file = variable("ETCDCTL_CACERT").value_or("");
  options.certificate_file = variable("ETCDCTL_CERT").value_or("");
  options.key_file = variable("ETCDCTL_KEY").value_or("");
  return options;
}

etcd_options parse_etcd(const std::string& address) {
  return parse_etcd(
    address, [](const std::string& name) -> std::optional<std::string> {
      const auto* const value = std::getenv(name.c_str());
      return value ? std::optional<std::string>(value) : std::nullopt;
    });
}

struct etcd_client::impl {
  using plain_stream = beast::tcp_stream;
  using tls_stream = asio::ssl::stream<beast::tcp_stream>;

  explicit impl(etcd_options wanted) : options(std::move(wanted)) {
    if (!options.uses_tls)
      return;
    boost::system::error_code trouble;
    const auto use = [&](const std::string& file, auto load) {
      if (!file.empty() && (load(file), trouble))
        fail(error_code::io, "{}: {}", file, trouble.message());
    };
    if (options.ca_file.empty())
      trust.set_default_verify_paths(trouble);
    use(options.ca_file,
        [&](auto& file) { trust.load_verify_file(file, trouble); });
    use(options.certificate_file,
        [&](auto& file) { trust.use_certificate_chain_file(file, trouble); });
    use(options.key_file, [&](auto& file) {
      trust.use_private_key_file(file, asio::ssl::context::pem, trouble);
    });
    trust.set_verify_mode(asio::ssl::verify_peer);
  }

  std::string key(const std::string& name) const {
    return to_base64(fmt::format("troupe/{}/{}", options.job, name));
  }

  /// Asks at most so many servers in turn, the one that answered last first.
  json ask(const char* path, const json& question, std::size_t most) {
    std::string problems;
    for (std::size_t i = 0; i < most; ++i) {
      try {
        if (token.empty() && !options.user.empty())
          authenticate();
        return answer_of(post(path, question));
      } catch (const std::exception& reason) {
        const auto* system =
          dynamic_cast<const boost::system::system_error*>(&reason);
        problems += fmt::format("{}{}: {}", problems.empty() ? "" : "; ",
                                options.servers[server],
                                system != nullptr ? system->code().message()
                                                  : std::string(reason.what()));
        token.clear();  // it may have ended
        close();
        server = (server + 1) % options.servers.size();
      }
    }
    fail(error_code::transport, "etcd: {}", problems);
  }

  json ask(const char* path, const json& question) {
    return ask(path, question, options.servers.size());
  }

  void authenticate() {
    token = text(
      answer_of(post("/v3/auth/authenticate",
                     {{"name", options.user}, {"password", options.password}})),
      "token");
  }

  static json answer_of(const http::response<http::string_body>& answer) {
    auto parsed = parsed_json(answer.body(), 16);
    if (answer.result() != http::status::ok || !parsed.is_object())
      fail(error_code::transport, "{}",
           parsed.is_object() && !text(parsed, "error").empty()
             ? log_text(text(parsed, "error"))
             : fmt::format("HTTP status {}", answer.result_int()));
    return parsed;
  }

  http::response<http::string_body> post(const char* path,
                                         const json& question) {
    http::request<http::string_body> request(http::verb::post, path, 11);
    request.set(http::field::host, options.servers[server]);
    request.set(http::field::content_type, "application/json");
    if (!token.empty())
      request.set(http::field::authorization, token);
    request.body() = question.dump();
    request.prepare_payload();
    http::response<http::string_body> answer;
    std::exception_ptr problem;
    here.restart();
    asio::co_spawn(
      here, [&]() -> asio::awaitable<void> { answer = co_await send(request); },
      [&](std::exception_ptr reason) { problem = std::move(reason); });
    here.run();
    if (problem)
      std::rethrow_exception(problem);
    if (!answer.keep_alive())
      close();
    return answer;
  }

  asio::awaitable<http::response<http::string_body>> send(
    const http::request<http::string_body>& request) {
    if (!plain && !tls)
      co_await connect();
    auto& bottom = tls ? tls->next_layer() : *plain;
    bottom.expires_after(options.time_limit);
    if (tls)
      co_return co_await exchange(*tls, request);
    co_return co_await exchange(*plain, request);
  }

  asio::awaitable<void> connect() {
    const auto where = parse_endpoint("tcp:" + options.servers[server]);
    asio::ip::tcp::resolver resolver(here);
    const auto found = co_await resolver.async_resolve(
      where.host, std::to_string(where.port), asio::use_awaitable);
    plain_stream fresh(here);
    fresh.expires_after(options.time_limit);
    co_await fresh.async_connect(found, asio::use_awaitable);
    fresh.socket().set_option(asio::ip::tcp::no_delay(true));
    if (!options.uses_tls) {
      plain.emplace(std::move(fresh));
      co_return;
    }
    tls_stream secure(std::move(fresh), trust);
    secure.set_verify_callback(asio::ssl::host_name_verification(where.host));
    if (!SSL_set_tlsext_host_name(secure.native_handle(), where.host.c_str()))
      fail(error_code::transport, "{} is no name for TLS", where.host);
    co_await secure.async_handshake(asio::ssl::stream_base::client,
                                    asio::use_awaitable);
    tls.emplace(std::move(secure));
  }

  void close() {
    plain.reset();
    tls.reset();
  }

  etcd_options options;
  std::size_t server = 0;  // which is asked
  std::string token;       // empty: none is needed, or none is there
  asio::ssl::context trust{asio::ssl::context::tls_client};
  asio::io_context here{1};
  // Connected, or none.
  std::optional<plain_stream> plain;
  std::optional<tls_stream> tls;
};

etcd_client::etcd_client(etcd_options options)
  : impl_(std::make_unique<impl>(std::move(options))) {}

etcd_client::~etcd_client() = default;

const etcd_options& etcd_client::options() const {
  return impl_->options;
}

std::optional<etcd_client::entry> etcd_client::get(const std::string& name) {
  const auto answer = impl_->ask("/v3/kv/range", {{"key", impl_->key(name)}});
  const auto found = answer.find("kvs");
  if (found == answer.end() || found->empty())
    return std::nullopt;
  const auto& each = found->front();
  return entry{from_base64(text(each, "value")), number(each, "version")};
}

std::int64_t etcd_client::version(const std::string& name) {
  const auto answer = impl_->ask(
    "/v3/kv/range", {{"key", impl_->key(name)}, {"keys_only", true}});
  const auto found = answer.find("kvs");
  return found == answer.end() || found->empty()
           ? 0
           : number(found->front(), "version");
}

bool etcd_client::put(const std::string& name, const std::string& value,
                      std::int64_t version, std::int64_t lease) {
  const json store{{"key", impl_->key(name)},
                   {"value", to_base64(value)},
                   {"lease", std::to_string(lease)}};
  const json condition{{"key", impl_->key(name)},
                       {"target", "VERSION"},
                       {"result", "EQUAL"},
                       {"version", std::to_string(version)}};
  const auto answer =
    impl_->ask("/v3/kv/txn",
               {{"compare", json::array({condition})},
                {"success", json::array({{{"request_put", store}}})}},
               1);  // a server that does not answer may have stored it
  return answer.value("succeeded", false);
}

void etcd_client::erase(const std::string& name) {
  impl_->ask("/v3/kv/deleterange", {{"key", impl_->key(name)}});
}

std::int64_t etcd_client::grant_lease(std::chrono::seconds duration) {
  return number(
    impl_->ask("/v3/lease/grant", {{"TTL", std::to_string(duration.count())}}),
    "ID");
}

bool etcd_client::keep_lease(std::int64_t lease) {
  const auto answer =
    impl_->ask("/v3/lease/keepalive", {{"ID", std::to_string(lease)}});
  const auto result = answer.find("result");
  return result != answer.end() && number(*result, "TTL") > 0;
}

void etcd_client::revoke_lease(std::int64_t lease) {
  impl_->ask("/v3/lease/revoke", {{"ID", std::to_string(lease)}});
}

}  // namespace troupe
