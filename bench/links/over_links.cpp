#include "ways.hpp"

#include <ATen/ops/zeros.h>

#include <semaphore>
#include <thread>

#include "troupe/engine/transport/connection.hpp"

using namespace troupe;
using clock_type = std::chrono::steady_clock;

namespace {

double since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}

at::Tensor tensor_of(std::size_t bytes) {
  return at::zeros({static_cast<std::int64_t>(bytes)}, at::kByte);
}

/// The other process's work: answers each frame until the goodbye.
void answer_all(int socket, const make_stream& make,
                std::chrono::microseconds spin, bool with_tensor) {
  io_loop loop({spin});
  std::binary_semaphore over{0};
  const auto link = connection::make(loop, make(socket, link_side::server));
  link->start({{},
               [&](frame what) {
                 if (with_tensor)
                   link->send(std::move(what));
                 else
                   link->send({frame_type::credit, {}, {}});
               },
               [&](const std::string&) { over.release(); }});
  link->send({frame_type::control, "ready", {}});
  over.acquire();
}

/// This process's end: counts incoming frames.
struct near_end {
  near_end(int socket, const make_stream& make, std::chrono::microseconds spin)
    : loop({spin}),
      link(connection::make(loop, make(socket, link_side::client))) {}
  void start(std::function<void()> then) {
    link->start({{},
                 [then = std::move(then)](const frame&) { then(); },
                 [](const std::string&) {}});
  }
  io_loop loop;
  connection_pointer link;
};

}  // namespace

double over_link(const std::array<int, 2>& sockets, const make_stream& make,
                 std::size_t bytes, int count, std::chrono::microseconds spin) {
  const auto own = [&](int socket) {
    near_end end(socket, make, spin);
    std::counting_semaphore<> credits{0};
    end.start([&] { credits.release(); });
    const auto sent = tensor_of(bytes).fill_(1);
    credits.acquire();  // the other side is ready
    constexpr int under_way = 4, before = 8;
    const auto send = [&](int tensors) {
      for (int i = 0; i < tensors + under_way; ++i) {
        if (i >= under_way)
          credits.acquire();
        if (i < tensors)
          end.link->send({frame_type::tensors, {}, {sent}});
      }
    };
    send(before);
    const auto begin = clock_type::now();
    send(count);
    const auto seconds = since(begin);
    end.link->close();
    end.loop.run([] {});
    return seconds;
  };
  return in_two_processes(
    sockets, own, [&](int socket) { answer_all(socket, make, spin, false); });
}

std::vector<double> round_trips(const std::array<int, 2>& sockets,
                                const make_stream& make, int count,
                                std::chrono::microseconds spin,
                                std::chrono::microseconds pause) {
  std::vector<double> all;
  const auto own = [&](int socket) {
    near_end end(socket, make, spin);
    std::binary_semaphore came{0}, over{0};
    const frame ping{frame_type::tensors, {}, {tensor_of(1024)}};
    clock_type::time_point begin;
    const auto send = [&] {
      begin = clock_type::now();
      end.link->send(ping);
    };
    bool is_first = true;
    end.start([&] {
      const auto took = since(begin);
      if (!std::exchange(is_first, false))
        all.push_back(took / 2 * 1e6);
      if (all.size() == static_cast<std::size_t>(count))
        over.release();
      else if (pause.count() == 0)
        send();
      else
        came.release();
    });
    for (int i = 0; pause.count() > 0 && i < count; ++i) {
      came.acquire();
      std::this_thread::sleep_for(pause);
      send();
    }
    over.acquire();
    end.link->close();
    end.loop.run([] {});
    return 0.0;
  };
  in_two_processes(sockets, own,
                   [&](int socket) { answer_all(socket, make, spin, true); });
  return all;
}
