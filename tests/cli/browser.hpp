#pragma once

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <string>

#include "../run_program.hpp"
#include "../temporary_folder.hpp"

namespace troupe::testing {

/// The command of a browser, Chromium or $TROUPE_CHROMIUM; empty without one.
inline std::string browser() {
  if (const auto* named = std::getenv("TROUPE_CHROMIUM"))
    return named;
  for (const auto* name : {"chromium", "chromium-browser", "google-chrome"})
    if (run_program(std::string("command -v ") + name).exit_code == 0)
      return name;
  return {};
}

/// Opens a page without a window, in which nothing may be complained of;
/// returns what the browser prints. It reaches this machine alone.
inline std::string browse(const std::string& url,
                          const temporary_folder& folder,
                          const std::string& flags) {
  const auto run = run_program(
    "timeout 120 " + browser()
    + " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage"
      " --disable-background-networking --no-first-run"
      " --host-resolver-rules='MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'"
      " --window-size=1400,1500 --virtual-time-budget=4000"
      " --enable-logging=stderr --user-data-dir="
    + (folder / "profile") + " " + flags + " '" + url + "'");
  INFO(run.output);
  CHECK(run.exit_code == 0);
  CHECK_THAT(run.output, !Catch::Matchers::ContainsSubstring("CONSOLE"));
  return run.output;
}

}  // namespace troupe::testing
