// The end of an endpoint.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstdlib>
#include <future>

#include "../../says.hpp"
#include "faked_job.hpp"
#include "troupe/monitors/http/http_server.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("at the end clients get what waits, and the file goes") {
  served_job at;
  live_client client(at.where());
  client.watch({});
  at.job.feed(step_number(1));
  at.server.close();
  CHECK(at.job.attached() == 0);
  CHECK(client.next(10)->type == "event");
  CHECK(client.next(10)->type == "ended");
  CHECK_FALSE(client.next(10));
  CHECK(client.ended());
  CHECK_THROWS_MATCHES(live_client(at.where(), "", 1), error,
                       says("no answer at"));
}

namespace {

/// Sends requests until the connection ends.
void ask_for_ever(const std::string& where, std::atomic<int>& asking) {
  try {
    live_client client(where);
    for (bool first = true;; first = false) {
      client.request("GET", "/monitors");
      asking += first ? 1 : 0;
    }
  } catch (const error&) {  // the server is gone
  }
}

}  // namespace

TEST_CASE("a server ends while clients ask") {
  for (int round = 0; round < 10; ++round) {
    served_job at;
    std::atomic<int> asking = 0;
    std::vector<std::jthread> all;
    for (int i = 0; i < 32; ++i)
      all.emplace_back([&] { ask_for_ever(at.where(), asking); });
    REQUIRE(becomes([&] { return asking == 32; }));
    const auto closed =
      std::async(std::launch::async, [&] { at.server.close(); });
    if (closed.wait_for(std::chrono::seconds(20))
        != std::future_status::ready) {
      std::fputs("the server does not end\n", stderr);
      std::abort();  // none of its threads can be ended
    }
  }
}

namespace {

/// An endpoint that answers /info only when it is allowed to.
struct waiting_endpoint {
  waiting_endpoint() {
    job_server_options options;
    options.site = site;
    options.operations = job.operations();
    options.operations.info = [this] {
      info_requested = true;
      while (!may_answer)
        std::this_thread::yield();
      return nlohmann::json{{"schedule", "faked"}};
    };
    server = std::make_unique<job_server>("unix:" + (folder / "s"),
                                          std::move(options));
  }
  ~waiting_endpoint() { may_answer = true; }

  auto close() {
    return std::async(std::launch::async, [this] { server->close(); });
  }

  const http_site_pointer site = make_site();
  faked_job job;
  temporary_folder folder;
  std::atomic<bool> info_requested = false, may_answer = false;
  std::unique_ptr<job_server> server;
};

}  // namespace

TEST_CASE("a request in flight is answered when the server ends") {
  waiting_endpoint at;
  auto answer = std::async(std::launch::async, [&] {
    return live_client(at.server->where())
      .health()["schedule"]
      .get<std::string>();
  });
  REQUIRE(becomes([&] { return at.info_requested.load(); }));
  const auto closed = at.close();
  at.may_answer = true;
  CHECK(closed.wait_for(std::chrono::seconds(20)) == std::future_status::ready);
  CHECK(answer.get() == "faked");
}

TEST_CASE("requests at the end are refused at other addresses of the site") {
  waiting_endpoint at;
  const http_server other({.address = "unix:" + (at.folder / "o")}, at.site);
  stranger waiting(at.server->where());
  waiting.say(request_text("GET", "/health"));
  REQUIRE(becomes([&] { return at.info_requested.load(); }));
  const auto closed = at.close();
  std::string answer;
  CHECK(becomes([&] {
    stranger late(other.address());
    late.say(request_text("GET", "/plan"));
    answer = late.listen(0.2);
    return answer.find("503") != std::string::npos;
  }));
  CHECK_THAT(answer, ContainsSubstring("the run is over"));
  at.may_answer = true;
}
