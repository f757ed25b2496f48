#pragma once

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "troupe/engine/transport/connection.hpp"

namespace troupe {

/// Returns once all connections are closed, no bytes have moved for 2 s, or
/// other processes alone have sent for as long as `leave`: the last message may
/// still be in flight, and there is no hurry while bytes move, but another
/// process may never stop sending.
inline void wait_until_closed(const std::vector<connection_pointer>& open,
                              std::chrono::milliseconds leave) {
  using clock = std::chrono::steady_clock;
  constexpr std::chrono::seconds longest_goodbye{2};
  const auto sum = [&](auto bytes) {
    std::int64_t total = 0;
    for (const auto& each : open)
      total += (each.get()->*bytes)();
    return total;
  };
  auto sent = sum(&connection::bytes_sent);
  auto received = sum(&connection::bytes_received);
  auto last_sent = clock::now(), last_moved = last_sent;
  const auto is_closed = [](const auto& each) { return each->is_closed(); };
  for (auto now = last_sent;
       !std::ranges::all_of(open, is_closed)
       && now - last_moved < longest_goodbye && now - last_sent < leave;
       now = clock::now()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const auto new_sent = sum(&connection::bytes_sent);
    const auto new_received = sum(&connection::bytes_received);
    if (std::exchange(sent, new_sent) != new_sent)
      last_sent = last_moved = now;
    if (std::exchange(received, new_received) != new_received)
      last_moved = now;
  }
}

}  // namespace troupe
