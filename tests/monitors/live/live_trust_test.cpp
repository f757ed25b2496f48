
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <future>

#include "../../expect.hpp"
#include "../../says.hpp"
#include "faked_job.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

const std::string secret = "a-secret-of-some-length";

}  // namespace

TEST_CASE("tcp needs a token, and clients need to know it") {
  faked_job job;
  const auto options = [&](const std::string& token) {
    job_server_options result;
    result.operations = job.operations();
    result.tokens.watch = token;
    return result;
  };
  CHECK_THROWS_MATCHES(job_server("tcp:127.0.0.1:0", options("")), error,
                       says("needs a token"));
  CHECK_THROWS_MATCHES(job_server("tcp:127.0.0.1:0", options("short")), error,
                       says("at least 16 characters"));
  const job_server server("tcp:127.0.0.1:0", options(secret));
  CHECK_THROWS_MATCHES(live_client(server.where()), error,
                       says("needs a token"));
  CHECK_THROWS_MATCHES(
    live_client(server.where(), secret + "?"), error,
    says("the other side has another token; --token-file takes "
         "a file with the content of the job's "
         "--endpoint-token-file or"));
  CHECK(live_client(server.where(), secret).health().is_object());
}

TEST_CASE("a unix socket may have a token, too") {
  const served_job at(job_server_options{.tokens = {.watch = secret}});
  CHECK(live_client(at.where(), secret).health().is_object());
  for (const auto& wrong : {std::string{}, secret + "?"})
    CHECK_THROWS_MATCHES(
      live_client(at.where(), wrong), error,
      says(
        "this endpoint needs a token: send `Authorization: Bearer TOKEN`, or "
        "name a file with the content of the job's --endpoint-token-file"));
}

namespace {

/// Listens in place of an endpoint, and relays between it and one client.
class eavesdropper {
 public:
  explicit eavesdropper(const std::string& server)
    : where_(parse_endpoint("tcp:127.0.0.1:0")), server_(server) {
    thread_ = std::thread([this] { run(); });
  }
  ~eavesdropper() { thread_.join(); }
  std::string where() const { return to_text(where_.where()); }
  const std::string& recorded() {
    done_.get_future().wait();
    return recorded_;
  }

 private:
  void run() {
    pollfd incoming{where_.handle(), POLLIN, 0};
    ::poll(&incoming, 1, 10'000);
    const int client = ::accept(where_.handle(), nullptr, nullptr);
    const int server = connected();
    std::array<char, 4096> bytes{};
    std::array<pollfd, 2> both{{{client, POLLIN, 0}, {server, POLLIN, 0}}};
    for (bool more = true; more && ::poll(both.data(), 2, 10'000) > 0;)
      for (const auto& each : both) {
        if (each.revents == 0)
          continue;
        const auto bytes_read = ::read(each.fd, bytes.data(), bytes.size());
        more = more && bytes_read > 0;
        if (bytes_read > 0)
          pass(each.fd == client ? server : client,
               {bytes.data(), static_cast<std::size_t>(bytes_read)});
      }
    ::close(client);
    ::close(server);
    done_.set_value();
  }
  int connected() const {
    const auto to = addresses_of(parse_endpoint(server_)).front();
    const int socket = ::socket(to.family(), SOCK_STREAM, 0);
    expect(::connect(socket, to.get(), to.size) == 0, "the endpoint answers");
    return socket;
  }
  void pass(int to, std::string_view bytes) {
    recorded_ += bytes;
    [[maybe_unused]] const auto sent =
      ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const listener where_;
  const std::string server_;
  std::string recorded_;
  std::promise<void> done_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("over tcp neither the token nor anything else travels in the clear") {
  faked_job job;
  job_server_options options;
  options.operations = job.operations();
  options.tokens.watch = secret;
  const job_server server("tcp:127.0.0.1:0", std::move(options));
  eavesdropper between(server.where());
  {
    CHECK(live_client(between.where(), secret).health()["schedule"] == "faked");
  }
  const auto& recorded = between.recorded();
  CHECK(recorded.size() > 100);
  for (const auto* word : {secret.c_str(), "faked", "HTTP", "health"})
    CHECK(recorded.find(word) == std::string::npos);
}

TEST_CASE("who answers with no health is not waited for") {
  const temporary_folder folder;
  const listener at(parse_endpoint("unix:" + (folder / "s")));
  const std::string head = "HTTP/1.1 200 OK\r\nContent-Length: ";
  for (const auto& answer :
       {head + "1\r\n\r\n{", head + "2\r\n\r\n[]", head + "2\r\n\r\n{}",
        head + "13\r\n\r\n{\"version\":3}", head + "-1\r\n\r\n",
        head + "99999999\r\n\r\n" + std::string(17 << 20, ' '),
        std::string("TRPL"), "HTTP/1.1 " + std::string(20'000, 'x')}) {
    auto other = std::async(std::launch::async, [&] {
      pollfd incoming{at.handle(), POLLIN, 0};
      ::poll(&incoming, 1, 10'000);
      const int client = ::accept(at.handle(), nullptr, nullptr);
      ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
      return client;  // stays open
    });
    const auto before = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(live_client(to_text(at.where()), "", 60), error);
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(30));
    ::close(other.get());
  }
}

TEST_CASE("an endpoint that could serve nobody is refused") {
  const auto refused = [](auto change) {
    job_server_options options;
    change(options);
    CHECK_THROWS_MATCHES(served_job(options), error, says("serve nobody"));
  };
  refused([](auto& options) { options.limits.connections = 0; });
  refused([](auto& options) { options.limits.queue_bytes = 0; });
  refused([](auto& options) { options.limits.request_seconds = -1; });
  refused([](auto& options) { options.limits.stalled_seconds = 0; });
}
