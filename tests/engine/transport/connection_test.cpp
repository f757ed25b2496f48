#include "troupe/engine/transport/connection.hpp"

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <fcntl.h>
#include <unistd.h>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <chrono>
#include <thread>
#include <utility>

#include "../../expect.hpp"
#include "stream_kinds.hpp"
#include "troupe/base/fail.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// Both ends in one process, each on a loop of its own.
struct joined {
  explicit joined(const stream_kind& kind, const io_loop_options& looking = {})
    : joined(kind.make(), looking) {}
  joined(stream_pair ends, const io_loop_options& looking)
    : loop_a(looking),
      loop_b(looking),
      a(connection::make(loop_a, std::move(ends.a))),
      b(connection::make(loop_b, std::move(ends.b))) {
    a->start(at_a.events());
  }

  recorded_events at_a, at_b;
  io_loop loop_a, loop_b;
  connection_pointer a, b;
};

/// Becomes writable after a read, like a line through shared memory, whose
/// memory is what comes first. That comes only after the first attempt to
/// write.
class opened_by_reading final : public byte_stream {
 public:
  using state = stream_progress::state;

  explicit opened_by_reading(int& written) : written_(written) {
    REQUIRE(::pipe2(ends_.data(), O_NONBLOCK | O_CLOEXEC) == 0);
  }
  ~opened_by_reading() override {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }

  stream_progress read(void*, std::size_t) override {
    return open_if_it_came(), stream_progress{state::needs_read};
  }
  stream_progress write(std::span<const iovec> parts) override {
    if (!open_if_it_came()) {
      if (!std::exchange(was_tried_, true))
        expect(::write(ends_[1], "!", 1) == 1, "the pipe takes a byte");
      return {state::needs_read};
    }
    std::size_t bytes = 0;
    for (const auto& part : parts)
      bytes += part.iov_len;
    return ++written_, stream_progress{state::moved, bytes};
  }
  stream_progress finish_writing() override { return {state::moved}; }
  void close() override {}
  wait_handle handle_to(state) const override { return {ends_[0], true}; }

 private:
  bool open_if_it_came() {
    char byte = 0;
    return is_open_ = is_open_ || ::read(ends_[0], &byte, 1) == 1;
  }

  std::array<int, 2> ends_{};
  int& written_;
  bool was_tried_ = false, is_open_ = false;
};

frame numbered(int i, std::int64_t elements) {
  return {frame_type::tensors,
          std::to_string(i),
          {at::full({elements}, i, at::kInt)}};
}

}  // namespace

TEST_CASE("frames arrive in order, whole, and without a copy of their own") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    pair.b->start(pair.at_b.events());
    constexpr int count = 50;
    for (int i = 0; i < count; ++i)
      pair.a->send(numbered(i, i % 7 == 0 ? 1'000'000 : i));
    const auto messages = pair.at_b.wait_for(count);
    REQUIRE(messages.size() == count);
    for (int i = 0; i < count; ++i) {
      const auto& message = messages[static_cast<std::size_t>(i)];
      CHECK(message.head == std::to_string(i));
      CHECK((message.tensors[0] == i).all().item<bool>());
      CHECK(message.tensors[0].numel() == (i % 7 == 0 ? 1'000'000 : i));
    }
    CHECK(pair.a->waiting() == 0);
    CHECK(pair.a->bytes_sent() == pair.b->bytes_received());
  });
}

TEST_CASE("a receiver that does not read holds up no sender") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    for (int i = 0; i < 20; ++i)
      pair.a->send(numbered(i, 1'000'000));
    CHECK(pair.a->waiting() > 0);
    pair.b->start(pair.at_b.events());
    CHECK(pair.at_b.wait_for(20).size() == 20);
  });
}

TEST_CASE("both directions at once") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    pair.b->start(pair.at_b.events());
    for (int i = 0; i < 20; ++i) {
      pair.a->send(numbered(i, 300'000));
      pair.b->send(numbered(i, 300'000));
    }
    CHECK(pair.at_a.wait_for(20).size() == 20);
    CHECK(pair.at_b.wait_for(20).size() == 20);
  });
}

TEST_CASE("a goodbye is not a loss, and comes after all sent messages") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    for (int i = 0; i < 5; ++i)
      pair.a->send(numbered(i, 500'000));
    pair.a->close();
    pair.b->start(pair.at_b.events());
    CHECK(pair.at_b.wait_for(5).size() == 5);
    CHECK(pair.at_b.wait_for_end() == "");
  });
}

TEST_CASE("the other side learns when a connection breaks") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    pair.b->start(pair.at_b.events());
    pair.a->abort();
    CHECK(pair.at_b.wait_for_end()->starts_with(
      "the other side closed the connection"));
    pair.b->send(numbered(1, 10));  // goes nowhere, harmlessly
  });
}

TEST_CASE("frames that wait are freed when the connection breaks") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    for (int i = 0; i < 20; ++i)
      pair.a->send(numbered(i, 1'000'000));
    CHECK(pair.a->waiting() > 0);
    pair.b->abort();
    CHECK(pair.at_a.wait_for_end().has_value());
    const auto until =
      std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (pair.a->waiting() > 0 && std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    CHECK(pair.a->waiting() == 0);
  });
}

TEST_CASE(
  "a frame that is not admitted ends the connection before memory is "
  "allocated") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    auto events = pair.at_b.events();
    events.admit = [](frame_type, const frame_head& head) {
      if (head.tensors.at(0).sizes.at(0) > 100)
        fail(error_code::transport, "too much");
    };
    pair.b->start(std::move(events));
    pair.a->send(numbered(0, 100));
    pair.a->send(numbered(1, 101));
    CHECK(pair.at_b.wait_for(1).size() == 1);
    CHECK(pair.at_b.wait_for_end() == "too much");
    CHECK(pair.at_a.wait_for_end().has_value());
  });
}

TEST_CASE("limits hold for announced sizes") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind);
    auto events = pair.at_b.events();
    events.limits.tensor_bytes = 1000;
    pair.b->start(std::move(events));
    pair.a->send(numbered(0, 251));
    CHECK(pair.at_b.wait_for_end()->find("at most") != std::string::npos);
  });
}

TEST_CASE("loops that look again see all, and sleep in the end") {
  for_each_kind([](const stream_kind& kind) {
    joined pair(kind, {std::chrono::microseconds(200)});
    pair.b->start(pair.at_b.events());
    for (int i = 0; i < 100; ++i) {
      pair.a->send(numbered(i, i));
      const auto messages = pair.at_b.wait_for(1);
      REQUIRE(messages.size() == 1);
      CHECK(messages[0].head == std::to_string(i));
      pair.b->send(numbered(i, 10'000));
      REQUIRE(pair.at_a.wait_for(1).size() == 1);
    }
    pair.a->close();
    CHECK(pair.at_b.wait_for_end() == "");
  });
}

TEST_CASE("a read may make room for a waiting write") {
  int written = 0;
  io_loop loop;
  auto with =
    connection::make(loop, std::make_unique<opened_by_reading>(written));
  loop.run([&] {
    with->send(numbered(0, 1));
    with->start({});
  });
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (with->waiting() > 0 && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  int count = 0;
  loop.run([&] { count = written; });
  CHECK(count == 1);
}

namespace {

/// Always has more to read: one heartbeat after the other.
class endless final : public byte_stream {
 public:
  stream_progress read(void* into, std::size_t size) override {
    const auto one = frame_start({frame_type::heartbeat, {}, {}});
    auto* bytes = static_cast<char*>(into);
    for (std::size_t i = 0; i < size; ++i)
      bytes[i] = one[at_++ % one.size()];
    return {stream_progress::state::moved, size};
  }
  stream_progress write(std::span<const iovec>) override {
    return {stream_progress::state::moved, 1};
  }
  stream_progress finish_writing() override {
    return {stream_progress::state::moved};
  }
  void close() override {}
  wait_handle handle_to(stream_progress::state) const override {
    return {-1, true};
  }

 private:
  std::size_t at_ = 0;
};

/// Has nothing to read, and no handle to wait on.
class without_handle final : public byte_stream {
 public:
  stream_progress read(void*, std::size_t) override {
    return {stream_progress::state::needs_read};
  }
  stream_progress write(std::span<const iovec>) override {
    return {stream_progress::state::moved, 1};
  }
  stream_progress finish_writing() override { return {}; }
  void close() override {}
  wait_handle handle_to(stream_progress::state) const override {
    return {-1, true};
  }
};

/// The reason why a connection over this stream is lost.
std::string loss_of(stream_pointer stream, connection_events events) {
  io_loop loop({.spin = std::chrono::microseconds(0)});
  std::promise<std::string> lost;
  events.lost = [&](const std::string& reason) { lost.set_value(reason); };
  const auto with = connection::make(loop, std::move(stream));
  with->start(std::move(events));
  auto reason = lost.get_future();
  if (reason.wait_for(std::chrono::seconds(60)) != std::future_status::ready)
    return "it was not lost";
  return reason.get();
}

}  // namespace

TEST_CASE("a connection that never runs dry leaves others their turn") {
  io_loop loop;
  std::promise<void> ran;
  std::atomic<bool> ends = false;
  const auto busy = connection::make(loop, std::make_unique<endless>());
  busy->start({.arrived = [&](const frame&) {
    if (ends)
      throw error(error_code::transport, "enough");
  }});
  loop.post([&] { loop.post([&] { ran.set_value(); }); });
  const auto had_its_turn = ran.get_future().wait_for(std::chrono::seconds(20));
  CHECK(had_its_turn == std::future_status::ready);
  ends = true;
  while (!busy->is_closed())
    std::this_thread::yield();
}

TEST_CASE("an exception of a link's events or descriptor ends that link") {
  CHECK(loss_of(std::make_unique<endless>(),
                {.arrived = [](const frame&) { throw 3; }})
          .find("of type int")
        != std::string::npos);
  CHECK(loss_of(std::make_unique<endless>(),
                {.arrived = [](const frame&) { throw std::bad_alloc(); }})
          .find("no memory")
        != std::string::npos);
  CHECK(loss_of(std::make_unique<without_handle>(),
                {.arrived = [](const frame&) {}})
          .find("Bad file descriptor")
        != std::string::npos);
}

TEST_CASE("an exception on a loop's thread is reported, and the loop goes on") {
  io_loop loop;
  std::promise<std::string> reported;
  loop.run([&] {
    loop.on_trouble(
      [&](const std::string& reason) { reported.set_value(reason); });
  });
  loop.post([] { throw 3; });
  CHECK(reported.get_future().get().find("of type int") != std::string::npos);
  int ran = 0;
  loop.run([&] { ++ran; });
  CHECK(ran == 1);
  loop.run([&] { loop.on_trouble({}); });
}
