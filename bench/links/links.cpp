// Links between two processes, beside bare sockets and bare OpenSSL: MiB/s of
// tensors of 16 MiB, and microseconds one way of a tensor of 1 KiB. Rounds
// alternate; medians (and of latencies the 99th percentile) as a table.
//   links [--rounds N] [--count N] [--mib N] [--spin US] [--ring KIB]

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "troupe/bench/measuring.hpp"
#include "troupe/engine/transport/io_loop.hpp"
#include "troupe/engine/transport/stream/shared_stream.hpp"
#include "troupe/engine/transport/stream/tls_stream.hpp"
#include "ways.hpp"

using namespace troupe;
using std::chrono::microseconds;

namespace {

struct settings {
  int rounds = 7;
  int count = 48;
  int mib = 16;
  int spin = static_cast<int>(io_loop_options{}.spin.count());
  int ring = static_cast<int>(default_ring_bytes >> 10U);
  int pings = 5000;
};

struct kind {
  const char* name;
  std::array<int, 2> (*sockets)();
  make_stream make;
  std::function<double(std::size_t, int)> bare;  // seconds
};

std::vector<kind> all_kinds(const settings& options) {
  const auto plain = [](int socket, link_side) {
    return socket_stream(socket);
  };
  const auto context = tls_context::of_token("token of a benchmark");
  const auto ring = static_cast<std::size_t>(options.ring) * 1024;
  const auto bare_unix = [](std::size_t bytes, int count) {
    return bare_socket(unix_sockets(), bytes, count);
  };
  return {{"unix", &unix_sockets, plain, bare_unix},
          {"TCP", &tcp_sockets, plain,
           [](std::size_t bytes, int count) {
             return bare_socket(tcp_sockets(), bytes, count);
           }},
          {"TLS", &tcp_sockets,
           [context](int socket, link_side own) {
             return tls_stream(socket, context, own);
           },
           [context](std::size_t bytes, int count) {
             return bare_tls(tcp_sockets(), context, bytes, count);
           }},
          {"shared memory", &unix_sockets,
           [ring](int socket, link_side own) {
             return shared_stream(socket_stream(socket), own, ring);
           },
           bare_unix}};
}

void print_throughput(const kind& subject, const settings& options) {
  const auto bytes = static_cast<std::size_t>(options.mib) << 20U;
  const auto spin = microseconds(options.spin);
  std::vector<double> link, awake, bare, ratios;
  const auto rate = [&](double seconds) {
    return options.mib * options.count / seconds;
  };
  for (int i = 0; i < options.rounds; ++i) {
    bare.push_back(rate(subject.bare(bytes, options.count)));
    link.push_back(rate(over_link(subject.sockets(), subject.make, bytes,
                                  options.count, microseconds(0))));
    awake.push_back(rate(
      over_link(subject.sockets(), subject.make, bytes, options.count, spin)));
    ratios.push_back(link.back() / bare.back());
  }
  fmt::print("| {} | {:.0f} | {:.0f} | {:.0f} | {:.0f} % |\n", subject.name,
             quantile(bare, 0.5), quantile(link, 0.5), quantile(awake, 0.5),
             100 * quantile(ratios, 0.5));
  std::fflush(stdout);
}

/// With the receiver awake, after it has just fallen asleep, and after both
/// sides have rested.
void print_latency(const kind& subject, const settings& options) {
  const microseconds none(0), spin(options.spin), rest(500);
  const auto trips = [&](int count, microseconds spinning, microseconds pause) {
    return round_trips(subject.sockets(), subject.make, count, spinning, pause);
  };
  const auto rested = options.pings / 10;
  fmt::print("| {} |", subject.name);
  for (const auto& time :
       {trips(options.pings, spin, none), trips(options.pings, none, none),
        bare_round_trips(subject.sockets(), options.pings, none),
        trips(rested, none, rest),
        bare_round_trips(subject.sockets(), rested, rest)})
    fmt::print(" {:.1f} | {:.1f} |", quantile(time, 0.5), quantile(time, 0.99));
  fmt::print("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  settings options;
  std::string only;
  CLI::App app{"links between two processes"};
  app.add_option("--rounds", options.rounds);
  app.add_option("--count", options.count, "tensors a round");
  app.add_option("--mib", options.mib);
  app.add_option("--spin", options.spin, "us that an awake end looks again");
  app.add_option("--ring", options.ring, "KiB of a ring in shared memory");
  app.add_option("--pings", options.pings);
  app.add_option("--only", only, "one kind");
  CLI11_PARSE(app, argc, argv);
  const auto kinds = all_kinds(options);
  fmt::print(
    "| {} MiB tensors | bare MiB/s | link MiB/s | awake | link to bare |\n"
    "|---|---|---|---|---|\n",
    options.mib);
  for (const auto& each : kinds)
    if (only.empty() || only == each.name)
      print_throughput(each, options);
  fmt::print(
    "\n| 1 KiB one way, us | awake, p50 | p99 | asleep, p50 | p99 | bare "
    "socket, "
    "p50 | p99 | rested, p50 | p99 | bare socket, p50 | p99 |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|\n");
  for (const auto& each : kinds)
    if (only.empty() || only == each.name)
      print_latency(each, options);
}
