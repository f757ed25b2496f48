#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <vector>

#include "troupe/engine/transport/trust/tls_context.hpp"

/// Seconds that blocking calls take for so many bytes so many times over, into
/// one reused buffer; both ends are new.
double bare_socket(const std::array<int, 2>& sockets, std::size_t bytes,
                   int count);
/// Microseconds one way for 1 KiB, half of each round trip, after a pause each.
std::vector<double> bare_round_trips(const std::array<int, 2>& sockets,
                                     int count,
                                     std::chrono::microseconds pause);
/// Like `bare_socket`, with TLS, by OpenSSL's own blocking calls.
double bare_tls(const std::array<int, 2>& sockets,
                const std::shared_ptr<troupe::tls_context>& context,
                std::size_t bytes, int count);
