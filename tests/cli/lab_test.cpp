#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>

#include "../monitors/http/http_client.hpp"
#include "background_program.hpp"
#include "browser.hpp"
#include "troupe/schedules/builtin.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe_program.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;
using nlohmann::json;
using namespace troupe::testing;

namespace {

struct served_lab {
  served_lab() : program(std::string{TROUPE_PROGRAM} + " lab", folder / "log") {
    REQUIRE(program.writes("/\n"));
  }

  /// As printed, such as http://127.0.0.1:43211/
  std::string url() const {
    const auto output = program.output();
    return output.substr(5, output.find('\n') - 5);
  }
  std::string address() const { return url().substr(7, url().size() - 8); }
  /// The URL of the page in this state.
  std::string page(const json& state) const {
    std::string hash;
    for (const auto byte : state.dump())
      hash += fmt::format("%{:02X}", static_cast<unsigned char>(byte));
    return url() + "#" + hash;
  }
  std::string dom(const json& state) const {
    return browse(page(state), folder, "--dump-dom");
  }
  std::string post(const std::string& path, const std::string& body,
                   const std::string& headers) const {
    return ask(address(),
               fmt::format("POST {} HTTP/1.1\r\nHost: {}\r\nContent-Length: "
                           "{}\r\n{}\r\n{}",
                           path, address(), body.size(), headers, body));
  }

  temporary_folder folder;
  background_program program;
};

constexpr auto json_content = "Content-Type: application/json\r\n";

json panel_of(const troupe::builtin_schedule& row) {
  return {{"name", row.name},
          {"stages", row.stages_per_rank.most == 1 ? 1 : 2},
          {"slices", row.has_slices ? 2 : 1}};
}

/// The panels of a page, by their attributes data-verdict and data-ops.
std::vector<std::pair<std::string, int>> panels_in(const std::string& page) {
  const std::regex panel(
    "data-verdict=\"(\\w+)\"[\\s\\S]*?<canvas[^>]*data-ops=\"(\\d+)\"");
  std::vector<std::pair<std::string, int>> panels;
  for (std::sregex_iterator next(page.begin(), page.end(), panel), end;
       next != end; ++next)
    panels.emplace_back((*next)[1], std::stoi((*next)[2]));
  return panels;
}

/// The first text that the page exports.
std::string exported(const std::string& page) {
  const auto tag = page.find("<pre");
  const auto begin = page.find('>', tag) + 1;
  auto text = page.substr(begin, page.find("</pre>", begin) - begin);
  for (const auto& [coded, plain] :
       {std::pair{"&gt;", ">"}, {"&lt;", "<"}, {"&amp;", "&"}})
    text = std::regex_replace(text, std::regex(coded), plain);
  return text;
}

}  // namespace

TEST_CASE("the lab serves its page and answers requests") {
  const served_lab lab;
  CHECK_THAT(lab.url(), StartsWith("http://127.0.0.1:"));
  const auto page = get(lab.address(), "/");
  CHECK_THAT(page,
             StartsWith("HTTP/1.1 200")
               && ContainsSubstring("Content-Security-Policy: default-src "
                                    "'none'")
               && ContainsSubstring("<!doctype html>")
               && !ContainsSubstring("@nonce@"));
  const auto drawn = lab.post(
    "/api/draw", R"({"name":"zb_v","stages_per_rank":2})", json_content);
  CHECK_THAT(drawn, StartsWith("HTTP/1.1 200")
                      && ContainsSubstring("Content-Type: application/json"));
  CHECK(json::parse(body_of(drawn))["name"] == "zb_v");
  CHECK_THAT(lab.post("/api/draw", R"({"ranks":0})", json_content),
             StartsWith("HTTP/1.1 400")
               && EndsWith("{\"error\":\"ranks must be a whole number in "
                           "1..64, but is 0\"}"));
  for (const auto* path : {"/api/draw", "/api/export"})
    CHECK_THAT(
      get(lab.address(), path),
      StartsWith("HTTP/1.1 405") && ContainsSubstring("Allow: POST\r"));
  for (const auto* path : {"/", "/api/schedules"})
    CHECK_THAT(
      lab.post(path, "{}", json_content),
      StartsWith("HTTP/1.1 405") && ContainsSubstring("Allow: GET, HEAD\r"));
  CHECK_THAT(get(lab.address(), "/api"), StartsWith("HTTP/1.1 404"));
}

TEST_CASE("the lab refuses pages of other hosts, and large requests") {
  const served_lab lab;
  CHECK_THAT(lab.post("/api/draw", "{}", "Content-Type: text/plain\r\n"),
             StartsWith("HTTP/1.1 415"));
  CHECK_THAT(
    lab.post("/api/draw", "{}",
             std::string{json_content} + "Origin: http://evil.test\r\n"),
    StartsWith("HTTP/1.1 403"));
  CHECK_THAT(ask(lab.address(), "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"),
             StartsWith("HTTP/1.1 403"));
  CHECK_THAT(
    lab.post("/api/draw", "{}",
             json_content
               + ("Origin: " + lab.url().substr(0, lab.url().size() - 1))
               + "\r\n"),
    StartsWith("HTTP/1.1 200"));
  CHECK_THAT(
    lab.post("/api/draw", std::string(1 << 19, ' '), json_content),
    StartsWith("HTTP/1.1 413") && ContainsSubstring("at most 262144 bytes"));
  CHECK_THAT(
    ask(lab.address(), fmt::format("GET /api/schedules HTTP/1.1\r\nHost: {}\r\n"
                                   "Origin: http://evil.test\r\n\r\n",
                                   lab.address())),
    StartsWith("HTTP/1.1 403"));
}

TEST_CASE("a signal ends the lab, and a port that is taken is told") {
  served_lab lab;
  const auto port = lab.address().substr(lab.address().find(':') + 1);
  const auto second = run_troupe("lab", "--port " + port);
  CHECK(second.exit_code == 1);
  CHECK_THAT(second.output, ContainsSubstring("can't listen at 127.0.0.1:"));
  CHECK(run_troupe("lab", "--port 65536").exit_code == 2);
  CHECK(lab.program.end(SIGTERM) == 143);
}

TEST_CASE("a browser draws each schedule in the lab", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const served_lab lab;
  const auto& rows = troupe::builtin_schedules();
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    const auto& second = rows[std::min(i + 1, rows.size() - 1)];
    CAPTURE(rows[i].name, second.name);
    const auto page = lab.dom(
      {{"compare", true}, {"panels", {panel_of(rows[i]), panel_of(second)}}});
    CHECK_THAT(page, ContainsSubstring("data-state=\"ready\"")
                       && ContainsSubstring("data-name=\"period\""));
    const auto panels = panels_in(page);
    REQUIRE(panels.size() == 2);
    for (const auto& [verdict, ops] : panels) {
      CHECK(verdict == "progress");
      CHECK(ops >= 4 * 8);
    }
  }
}

TEST_CASE("a browser shows a deadlock in the lab", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const served_lab lab;
  const auto page = lab.dom(
    {{"panels",
      {{{"source", "text"}, {"text", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"}},
       json::object()}}});
  CHECK(panels_in(page).at(0).first == "deadlock");
  CHECK_THAT(page,
             ContainsSubstring("deadlock: rank 0 at 0B0 waits for 1B0 of rank "
                               "1; rank 1 at 1F1 waits for 0F1 of rank 0")
               && ContainsSubstring("src=\"data:image/svg+xml,"));
  const auto refused =
    lab.dom({{"panels", {{{"name", "dualpipe"}}, json::object()}},
             {"microbatches", 4}});
  CHECK(panels_in(refused).at(0).first == "error");
  CHECK_THAT(refused, ContainsSubstring("dualpipe: microbatches must be even"));
}

TEST_CASE("verify accepts what a browser exports from the lab", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const served_lab lab;
  for (const auto* format : {"csv", "plan", "lowered_csv"}) {
    CAPTURE(format);
    const auto page = lab.dom(
      {{"panels",
        {{{"name", "interleaved_zb"}, {"stages", 2}, {"export", format}},
         json::object()}}});
    const auto file = lab.folder.write("exported", exported(page));
    const auto run = run_troupe("verify", file, "--transport rendezvous");
    INFO(run.output);
    CHECK(run.exit_code == 0);
    CHECK_THAT(run.output, ContainsSubstring("4 ranks, 8 stages"));
  }
}

TEST_CASE("a browser makes a picture of the lab", "[serial]") {
  if (browser().empty())
    SKIP("no chromium: install it, or name one in TROUPE_CHROMIUM");
  const served_lab lab;
  const auto picture = lab.folder / "page.png";
  browse(lab.page({{"compare", true}, {"critical", true}}), lab.folder,
         "--screenshot=" + picture);
  CHECK(std::filesystem::file_size(picture) > 30'000);
}
