#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>

#include "../files.hpp"
#include "../monitors/http/http_client.hpp"
#include "../temporary_folder.hpp"
#include "../write_secret.hpp"
#include "background_program.hpp"
#include "browser.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using namespace troupe::testing;

namespace {

std::string train_command(const temporary_folder& folder,
                          const std::string& flags) {
  return std::string{TROUPE_PROGRAM} + " train --text "
         + write_text(folder)
         + " --d-model 16 --layers 4 --heads 2 --seq 8 --microbatch-size 2"
           " --ranks 4 --microbatches 4 --endpoint none "
         + flags;
}

/// A run with a page, which goes on until the test is over.
struct shown_run {
  explicit shown_run(const std::string& flags = {})
    : job(train_command(folder,
                        "--steps 100000000 --eval-every 5 "
                        "--monitor stability --dashboard 127.0.0.1:0 "
                          + flags),
          folder / "job") {
    REQUIRE(job.writes("step 25/"));
  }

  /// As logged, such as http://127.0.0.1:43211/
  std::string url() const {
    const auto output = job.output();
    const auto from = output.find("dashboard: ") + 11;
    return output.substr(from, output.find('\n', from) - from);
  }
  std::string address() const { return url().substr(7, url().size() - 8); }

  temporary_folder folder;
  background_program job;
};

/// The number in `name="17"`; -1 without one.
int attribute(const std::string& page, const std::string& name) {
  std::smatch match;
  return std::regex_search(page, match, std::regex(name + "=\"(\\d+)\""))
           ? std::stoi(match[1])
           : -1;
}

/// The URLs that the page requested, according to the browser's log.
std::vector<std::string> requests_of_page(const std::string& log) {
  std::ifstream in(log);
  std::vector<std::string> urls;
  const auto all = nlohmann::json::parse(in);
  for (const auto& event : all.at("events")) {
    const auto params = event.value("params", nlohmann::json::object());
    if (params.is_object() && params.contains("url")
        && params.value("network_isolation_key", "")
             .starts_with("http://127.0.0.1"))
      urls.push_back(params.at("url"));
  }
  return urls;
}

}  // namespace

TEST_CASE("a browser shows a live run", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const shown_run at;
  const auto log = at.folder / "net.json";
  const auto page =
    browse(at.url(), at.folder, "--dump-dom --log-net-log=" + log);
  CHECK(attribute(page, "data-spans") >= 2 * (4 * 4 * 2 + 4));
  CHECK(attribute(page, "data-cells") == 4 * 4);
  // coordinator, hub, loader, ranks, stages, reducers; warnings, progress,
  // stability, the replanner and two of the page's own
  CHECK(attribute(page, "data-actors") == 3 + 4 + 4 + 4 + 6);
  for (const auto* name :
       {"train/loss", "validation/loss", "tokens/s", "gradient norm", "bubble",
        "learning rate", "memory"}) {
    CAPTURE(name);
    CHECK(attribute(page, std::string("data-name=\"") + name + "\" data-points")
          >= 5);
  }
  CHECK_THAT(page, ContainsSubstring("data-state=\"running\"")
                     && ContainsSubstring("data-actor=\"coordinator\"")
                     && ContainsSubstring("data-actor=\"rank 3\"")
                     && ContainsSubstring("data-actor=\"stability\"")
                     && ContainsSubstring("<b>1f1b</b>")
                     && ContainsSubstring("tokens seen <b>")
                     && ContainsSubstring("<code>troupe train ")
                     && ContainsSubstring("<b>gpt, "));
  const auto requests = requests_of_page(log);
  CHECK(requests.size() >= 2);  // the page and its state
  for (const auto& url : requests)
    CHECK_THAT(url, StartsWith(at.url()));
}

TEST_CASE("a browser makes a picture of a live run", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const shown_run at;
  const auto picture = at.folder / "page.png";
  browse(at.url(), at.folder, "--screenshot=" + picture);
  CHECK(std::filesystem::file_size(picture) > 30'000);
}

TEST_CASE("a browser that knows the token shows the run", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const temporary_folder folder;
  const shown_run at("--dashboard-token-file "
                     + write_secret(folder, "open-sesame-please"));
  const auto page =
    browse("http://any:open-sesame-please@" + at.address() + "/", at.folder,
           "--dump-dom");
  CHECK_THAT(page, ContainsSubstring("data-state=\"running\"")
                     && ContainsSubstring("data-actor=\"rank 3\""));
}

TEST_CASE("a dashboard with a token asks for it") {
  const temporary_folder folder;
  const shown_run at("--dashboard-token-file "
                     + write_secret(folder, "open-sesame-please"));
  CHECK_THAT(get(at.address(), "/"), StartsWith("HTTP/1.1 401"));
  CHECK_THAT(
    get(at.address(), "/",
        "Authorization: Basic dTpvcGVuLXNlc2FtZS1wbGVhc2U=\r\n"),
    StartsWith("HTTP/1.1 200") && ContainsSubstring("<!doctype html>"));
}

TEST_CASE("a dashboard changes no byte of what is trained") {
  const temporary_folder folder;
  const auto train = [&](const std::string& name, const std::string& flags) {
    const auto saved = folder / name;
    const auto run = run_program(train_command(
      folder, "--steps 25 --save-parameters " + saved + " " + flags));
    INFO(run.output);
    CHECK(run.exit_code == 0);
    return content(saved);
  };
  const auto without = train("a", "");
  CHECK_FALSE(without.empty());
  CHECK(train("b", "--dashboard 127.0.0.1:0") == without);
}

TEST_CASE("a dashboard that can't be is refused before any work") {
  const temporary_folder folder;
  const auto refused = [&](const std::string& flags, int code,
                           const std::string& reason) {
    const auto run = run_program(train_command(folder, "--steps 1 " + flags));
    INFO(flags << "\n" << run.output);
    CHECK(run.exit_code == code);
    CHECK_THAT(run.output,
               ContainsSubstring(reason) && !ContainsSubstring("step 1/"));
  };
  refused("--dry-run --dashboard 0.0.0.0:0", 2,
          "give a token by --dashboard-token-file FILE, or listen at");
  refused("--dry-run --dashboard nonsense", 2, "'nonsense' is not an address");
  refused("--dry-run --dashboard 127.0.0.1:99999", 2, "is not an address");
  refused("--dry-run --dashboard 0.0.0.0:0 --dashboard-token-file /no/such", 1,
          "the token: /no/such: can't be read: No such");
  refused("--dry-run --dashboard-token-file /no/such", 2,
          "--dashboard-token-file has no effect without --dashboard");
  refused("--plain --dashboard 127.0.0.1:0", 2,
          "--dashboard has nothing to show");
  const shown_run first;
  refused("--dashboard " + first.address(), 1, "can't listen at");
}
