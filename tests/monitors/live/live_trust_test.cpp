#include "troupe/monitors/live/live_trust.hpp"

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
    endpoint_options made;
    made.operations = job.operations();
    made.tokens.watch = token;
    return made;
  };
  CHECK_THROWS_MATCHES(endpoint_server("tcp:127.0.0.1:0", options("")), error,
                       says("needs a token"));
  CHECK_THROWS_MATCHES(endpoint_server("tcp:127.0.0.1:0", options("short")),
                       error, says("at least 16 characters"));
  const endpoint_server server("tcp:127.0.0.1:0", options(secret));
  CHECK_THROWS_MATCHES(live_client(server.where()), error,
                       says("needs a token"));
  CHECK_THROWS_MATCHES(
    live_client(server.where(), secret + "?"), error,
    says("the other side has another token; --token-file takes "
         "a file with the content of the job's "
         "--endpoint-token-file or"));
  live_client client(server.where(), secret);
  CHECK(client.request({{"do", "info"}}).is_object());
}

TEST_CASE("a unix socket may have a token, too") {
  const served_job open;
  const served_job at(endpoint_options{.tokens = {.watch = secret}});
  live_client client(at.where(), secret);
  CHECK(client.request({{"do", "info"}}).is_object());
  CHECK_THROWS_MATCHES(live_client(at.where()), error,
                       says("if it was given tokens"));
  CHECK_THROWS_MATCHES(
    live_client(at.where(), secret + "?"), error,
    says("the other side has another token; --token-file takes "
         "a file with the content of the job's "
         "--endpoint-token-file or"));
  CHECK_THROWS_MATCHES(live_client(open.where(), secret), error,
                       says("does not speak TLS 1.3: at a job's unix socket "
                            "without tokens, leave out --token-file"));
}

namespace {

/// Listens in an endpoint's place, and hands on between it and one client.
class eavesdropper {
 public:
  explicit eavesdropper(const std::string& server)
    : where_(parse_endpoint("tcp:127.0.0.1:0")), server_(server) {
    thread_ = std::thread([this] { run(); });
  }
  ~eavesdropper() { thread_.join(); }
  std::string where() const { return to_text(where_.where()); }
  const std::string& heard() {
    done_.get_future().wait();
    return heard_;
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
        const auto got = ::read(each.fd, bytes.data(), bytes.size());
        more = more && got > 0;
        if (got > 0)
          pass(each.fd == client ? server : client,
               {bytes.data(), static_cast<std::size_t>(got)});
      }
    ::close(client);
    ::close(server);
    done_.set_value();
  }
  int connected() const {
    const auto to = addresses_of(parse_endpoint(server_)).front();
    const int made = ::socket(to.family(), SOCK_STREAM, 0);
    expect(::connect(made, to.get(), to.size) == 0, "the endpoint answers");
    return made;
  }
  void pass(int to, std::string_view bytes) {
    heard_ += bytes;
    [[maybe_unused]] const auto sent =
      ::send(to, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }

  const listener where_;
  const std::string server_;
  std::string heard_;
  std::promise<void> done_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("over tcp neither the token nor anything else travels in the clear") {
  faked_job job;
  endpoint_options options;
  options.operations = job.operations();
  options.tokens.watch = secret;
  const endpoint_server server("tcp:127.0.0.1:0", std::move(options));
  eavesdropper between(server.where());
  {
    live_client client(between.where(), secret);
    CHECK(client.request({{"do", "info"}})["schedule"] == "faked");
  }
  const auto& heard = between.heard();
  CHECK(heard.size() > 100);
  for (const auto* word : {secret.c_str(), "faked", "TRPL", "info"})
    CHECK(heard.find(word) == std::string::npos);
}

TEST_CASE("who answers with no welcome is not waited for") {
  const temporary_folder folder;
  const listener at(parse_endpoint("unix:" + (folder / "s")));
  std::string large = frame_bytes(live_type::welcome, "{}");
  large[10] = 0x0f;  // announces nearly a MiB
  for (const auto& answer : {frame_bytes(live_type::welcome, "{"),
                             frame_bytes(live_type::welcome, "[]"),
                             frame_bytes(live_type::welcome, "{}"),
                             frame_bytes(live_type::event, "{\"id\":1}"),
                             frame_bytes(live_type::answer, "{}"), large}) {
    const auto other = std::async(std::launch::async, [&] {
      pollfd incoming{at.handle(), POLLIN, 0};
      ::poll(&incoming, 1, 10'000);
      const int client = ::accept(at.handle(), nullptr, nullptr);
      ::send(client, answer.data(), answer.size(), MSG_NOSIGNAL);
      return client;  // stays open
    });
    const auto before = std::chrono::steady_clock::now();
    CHECK_THROWS_AS(live_client(to_text(at.where()), "", 60), error);
    CHECK(std::chrono::steady_clock::now() - before < std::chrono::seconds(30));
  }
}

TEST_CASE("an endpoint that could serve nobody is refused") {
  const auto refused = [](auto change) {
    endpoint_options options;
    change(options);
    CHECK_THROWS_MATCHES(served_job(options), error, says("serve nobody"));
  };
  refused([](auto& options) { options.clients = 0; });
  refused([](auto& options) { options.queue_bytes = 0; });
  refused([](auto& options) { options.hello_seconds = -1; });
  refused([](auto& options) { options.stalled_seconds = 0; });
}
