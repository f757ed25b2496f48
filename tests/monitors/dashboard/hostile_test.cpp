#include <catch2/catch_test_macros.hpp>

#include <memory>
#include <random>

#include "../attacked_run.hpp"
#include "../http/http_client.hpp"
#include "troupe/engine/device/memory.hpp"
#include "troupe/monitors/dashboard/dashboard_server.hpp"

using namespace troupe;
using namespace troupe::testing;
using namespace std::chrono_literals;

namespace {

/// A run with a page, which goes on until the test has finished.
struct shown_run : attacked_run {
  explicit shown_run(const std::string& token = {})
    : shown({.plan = run.shared_plan(),
             .statistics_every = 2,
             .health = [this] { return run.health(); }},
            {.token = token}) {
    for (const auto& part : shown.monitors())
      run.attach(part);
  }

  std::string where() const {
    const auto url = shown.url();
    return url.substr(7, url.size() - 8);
  }

  dashboard_server shown;
};

std::string bad_request(std::mt19937& random) {
  static const std::vector<std::string> requests{
    "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /state HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "GET /state/17 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "GET /state/-9223372036854775808 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "GET /state/../../x HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "POST / HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\nx",
    "HEAD / HTTP/1.1\r\nAuthorization: Basic ////====\r\n\r\n"};
  if (random() % 4 == 0) {
    std::string noise(random() % 2000, 0);
    for (auto& byte : noise)
      byte = static_cast<char>(random());
    return noise;
  }
  auto request = requests[random() % requests.size()];
  for (auto changes = random() % 4; changes > 0; --changes)
    request[random() % request.size()] = static_cast<char>(random());
  if (random() % 3 == 0)
    request.resize(random() % request.size());
  return request;
}

void send_bad_requests(const std::string& where, int count) {
  std::mt19937 random(29);
  for (int i = 0; i < count; ++i) {
    http_client other(where);
    other.send(bad_request(random));
    if (i % 16 == 0)
      other.can_read(10ms);
  }
}

/// Opens connections whose requests never end, a hundred at a time.
void leave_open(const std::string& where, int count) {
  std::mt19937 random(31);
  const std::string request = "GET /state HTTP/1.1\r\nHost: localhost\r\n";
  for (int done = 0; done < count; done += 100) {
    std::vector<std::unique_ptr<http_client>> crowd;
    for (int i = 0; i < 100; ++i) {
      crowd.push_back(std::make_unique<http_client>(where));
      crowd.back()->send(request.substr(0, random() % request.size()));
    }
  }
}

void attack(int requests) {
  shown_run at;
  const auto before = resident_bytes();
  const auto losses = at.train_beside([&] {
    http_client slow(at.where(), 4096);
    slow.send("GET /state HTTP/1.1\r\n\r\n");
    send_bad_requests(at.where(), requests);
    leave_open(at.where(), 1000);
  });
  CHECK(soon([&] { return at.shown.connections() == 0; }));
  CHECK(resident_bytes() - before < 256 << 20);
  const auto page = get(at.where(), "/state");
  CHECK(page.starts_with("HTTP/1.1 200 OK"));
  at.check_untouched(losses);
}

}  // namespace

TEST_CASE(
  "hostile requests change no bit of a run, and the page still answers") {
  attack(1000);
}

TEST_CASE("ten thousand hostile requests change no bit of a run", "[.full]") {
  attack(10'000);
}

TEST_CASE("without the token, no mutation of a request is answered") {
  const shown_run at("sesame");
  std::mt19937 random(37);
  for (int i = 0; i < 500; ++i) {
    http_client other(at.where());
    if (!other.send(bad_request(random)) || !other.can_read(20ms))
      continue;
    const auto answer = other.read_to_end();
    const auto status = answer.substr(0, 12);
    INFO(answer);
    CHECK((status.empty() || status == "HTTP/1.1 401"
           || status == "HTTP/1.1 400" || status == "HTTP/1.1 413"
           || status == "HTTP/1.1 431"));
  }
}
