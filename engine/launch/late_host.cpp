#include "troupe/engine/launch/late_host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

#include "troupe/base/fail.hpp"

namespace troupe {

namespace {

using clock = std::chrono::steady_clock;
using milliseconds = std::chrono::milliseconds;

/// Empty: it has an address.
std::string trouble_with_host(const endpoint& address) {
  try {
    addresses_of(address);
    return {};
  } catch (const error& reason) {
    if (reason.code() != error_code::transport)
      throw;
    return reason.what();
  }
}

/// Returns early if the process is to stop.
void pause(const job_options& options, milliseconds time) {
  constexpr milliseconds look_every{50};
  for (const auto until = clock::now() + time; clock::now() < until;) {
    if (options.stopped && options.stopped())
      fail_stopped(options.place);
    std::this_thread::sleep_for(std::min(look_every, time));
  }
}

}  // namespace

void wait_for_host(const job_options& options, const endpoint& address) {
  constexpr milliseconds longest_pause{500};
  const auto began = clock::now();
  auto news_at = began + options.news_every;
  for (milliseconds time{20};; time = std::min(2 * time, longest_pause)) {
    const auto trouble = trouble_with_host(address);
    if (trouble.empty())
      return;
    if (clock::now() + time >= began + options.patience)
      fail(error_code::transport,
           "{}: its host has no address within {:.3g} s ({}); check the name, "
           "or give an IP address",
           to_text(address),
           1e-3 * static_cast<double>(options.patience.count()), trouble);
    if (options.news && clock::now() >= news_at) {
      options.news(fmt::format("waiting for the address of process 0, {}: {}",
                               to_text(address), trouble));
      news_at += options.news_every;
    }
    pause(options, time);
  }
}

void fail_stopped(const launch_environment& place) {
  fail(error_code::interrupted,
       "process {} was stopped while the processes of the job were meeting",
       place.process);
}

}  // namespace troupe
