#include "troupe/engine/transport/mesh.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "socket_pair.hpp"
#include "troupe/engine/transport/line_silence.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// What one of two processes reports about the other's silence.
class silences {
 public:
  mesh_events events() {
    mesh_events result;
    result.arrived = [](std::int32_t, frame) {};
    result.silent = [this](std::int32_t process, double seconds,
                           std::optional<line>) {
      const std::scoped_lock lock(mutex_);
      told_.emplace_back(process, seconds > 0);
      changed_.notify_all();
    };
    return result;
  }
  std::vector<std::pair<std::int32_t, bool>> wait_for(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1),
                      [&] { return told_.size() >= count; });
    return told_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<std::int32_t, bool>> told_;
};

}  // namespace

TEST_CASE("a silent process is reported, and its return") {
  using std::chrono::milliseconds;
  const mesh_patience quick{milliseconds(5), milliseconds(50),
                            std::chrono::seconds(20)};
  io_loop loop_a, loop_b;
  auto ends = socket_pair();
  mesh a(loop_a, {0, 2, 7}, quick);
  a.add(1, line::control, connection::make(loop_a, std::move(ends.a)));
  auto b = std::make_unique<mesh>(loop_b, job_place{1, 2, 7}, quick);
  b->add(0, line::control, connection::make(loop_b, std::move(ends.b)));
  silences of_a;
  a.start(of_a.events());
  CHECK(of_a.wait_for(1)
        == std::vector<std::pair<std::int32_t, bool>>{{1, true}});
  silences of_b;
  b->start(of_b.events());
  CHECK(of_a.wait_for(2).at(1) == std::pair(1, false));
  std::thread leaving([&] { b.reset(); });
  a.stop();
  leaving.join();
}

TEST_CASE("silence is reported for all connections, or for a single one") {
  using std::chrono::seconds;
  const line_silence::clock::time_point begin{};
  line_silence silence;
  const auto at = [&](int time, std::int64_t control, std::int64_t tensors) {
    silence.note(line::control, control, begin + seconds(time));
    silence.note(line::incoming, tensors, begin + seconds(time));
    return silence.check(seconds(5), begin + seconds(time));
  };
  CHECK(at(0, 0, 0).longest == seconds(0));
  CHECK(at(5, 0, 7).longest == seconds(5));
  CHECK(at(6, 0, 8).only == line::control);
  const auto all = at(12, 0, 8);
  CHECK(all.longest == seconds(12));
  CHECK_FALSE(all.only.has_value());
  CHECK(at(13, 1, 8).only == line::incoming);
  CHECK(at(14, 2, 9).longest == seconds(0));
}

TEST_CASE("one silent connection of a process that speaks is reported") {
  using std::chrono::milliseconds;
  const mesh_patience quick{milliseconds(5), milliseconds(50),
                            std::chrono::seconds(20)};
  io_loop loop_a, loop_b;
  auto control = socket_pair();
  auto tensors = socket_pair();
  mesh a(loop_a, {0, 2, 7}, quick);
  a.add(1, line::control, connection::make(loop_a, std::move(control.a)));
  a.add(1, line::incoming, connection::make(loop_a, std::move(tensors.a)));
  // Nothing passes on what process 1 sends on its control connection.
  auto b = std::make_unique<mesh>(loop_b, job_place{1, 2, 7}, quick);
  b->add(0, line::outgoing, connection::make(loop_b, std::move(tensors.b)));
  silences of_a, of_b;
  b->start(of_b.events());
  a.start(of_a.events());
  CHECK(of_a.wait_for(1).at(0) == std::pair(1, true));
  control.b.reset();
  std::thread leaving([&] { b.reset(); });
  a.stop();
  leaving.join();
}

TEST_CASE("a mesh ends while another process sends and never leaves") {
  using std::chrono::milliseconds;
  io_loop loop_a, loop_b;
  auto ends = socket_pair();
  const auto b = connection::make(loop_b, std::move(ends.b));  // reads nothing
  std::atomic<bool> ended = false;
  std::jthread beats([&] {
    while (!ended) {
      if (b->waiting() == 0)
        b->send({frame_type::heartbeat, {}, {}});
      std::this_thread::yield();
    }
  });
  const auto begin = std::chrono::steady_clock::now();
  {
    mesh a(loop_a, {0, 2, 7}, {.leave = milliseconds(100)});
    a.add(1, line::control, connection::make(loop_a, std::move(ends.a)));
    a.start({});
  }
  const auto end = std::chrono::steady_clock::now();
  ended = true;
  CHECK(end - begin >= milliseconds(100));
  CHECK(end - begin < std::chrono::minutes(1));
}

TEST_CASE("a long wait for a message is reported") {
  io_loop loop_a, loop_b;
  auto ends = socket_pair();
  mesh a(loop_a, {0, 2, 7});
  a.add(1, line::control, connection::make(loop_a, std::move(ends.a)));
  auto b = std::make_unique<mesh>(loop_b, job_place{1, 2, 7});
  b->add(0, line::control, connection::make(loop_b, std::move(ends.b)));
  mesh_events nothing;
  nothing.arrived = [](std::int32_t, const frame&) {};
  nothing.lost = [](std::int32_t, const std::string&) {};
  a.start(nothing);
  b->start(nothing);
  std::vector<std::int32_t> waiting;
  a.report_waits(std::chrono::milliseconds(5),
                 [&](std::int32_t from, double seconds) {
                   CHECK(seconds > 0);
                   waiting.push_back(from);
                   if (waiting.size() == 2)
                     b->send(0, {frame_type::mail, "at last", {}});
                 });
  CHECK(a.receive(1).head == "at last");
  // A third one may have been reported while the mail was in flight.
  CHECK(waiting.size() >= 2);
  CHECK(std::ranges::count(waiting, 1) == std::ssize(waiting));
  std::thread leaving([&] { b.reset(); });
  a.stop();
  leaving.join();
}

TEST_CASE("a mesh hands on what comes next to other handlers") {
  io_loop loop_a, loop_b;
  auto ends = socket_pair();
  mesh a(loop_a, {0, 2, 7});
  a.add(1, line::control, connection::make(loop_a, std::move(ends.a)));
  auto b = std::make_unique<mesh>(loop_b, job_place{1, 2, 7});
  b->add(0, line::control, connection::make(loop_b, std::move(ends.b)));
  std::vector<std::string> first, second;  // on the loop's thread
  const auto into = [](std::vector<std::string>& seen) {
    mesh_events all;
    all.arrived = [&](std::int32_t, const frame& what) {
      seen.push_back(what.head);
    };
    all.lost = [&](std::int32_t, const std::string&) {
      seen.push_back("lost");
    };
    return all;
  };
  a.start(into(first));
  b->start({});
  b->send(0, {frame_type::control, "one", {}});
  b->send(0, {frame_type::mail, "then", {}});
  CHECK(a.receive(1).head == "then");
  CHECK_FALSE(a.await_loss(std::chrono::milliseconds(1)));
  a.redirect(into(second));
  b->send(0, {frame_type::control, "two", {}});
  b->send(0, {frame_type::mail, "then", {}});
  CHECK(a.receive(1).head == "then");
  std::thread leaving([&] { b.reset(); });
  CHECK_THROWS_WITH(a.receive(1), Catch::Matchers::ContainsSubstring("left"));
  CHECK(a.await_loss({}));
  std::vector<std::string> third;
  a.redirect(into(third));  // it is lost already
  a.stop();
  leaving.join();
  CHECK(first == std::vector<std::string>{"one"});
  CHECK(second == std::vector<std::string>{"two", "lost"});
  CHECK(third == std::vector<std::string>{"lost"});
}

TEST_CASE("mail, notes and all else arrive apart, on the lines of their type") {
  CHECK(line_of(frame_type::tensors) == line::outgoing);
  CHECK(line_of(frame_type::part) == line::outgoing);
  CHECK(line_of(frame_type::state) == line::outgoing);
  CHECK(line_of(frame_type::credit) == line::incoming);
  CHECK(line_of(frame_type::mail) == line::control);
  io_loop loop_a, loop_b;
  auto ends = socket_pair();
  mesh a(loop_a, {0, 2, 7});
  a.add(1, line::control, connection::make(loop_a, std::move(ends.a)));
  CHECK_THROWS_WITH(a.receive(1),
                    Catch::Matchers::ContainsSubstring("not been started"));
  auto b = std::make_unique<mesh>(loop_b, job_place{1, 2, 7});
  b->add(0, line::control, connection::make(loop_b, std::move(ends.b)));
  std::vector<std::string> arrived;  // on the loop's thread
  mesh_events all;
  all.arrived = [&](std::int32_t, const frame& what) {
    arrived.push_back(what.head);
  };
  a.start(all);
  b->start({});
  b->send(0, {frame_type::note, "a note", {}});
  b->send(0, {frame_type::control, "control", {}});
  b->send(0, {frame_type::mail, "mail", {}});
  CHECK(a.receive(1).head == "mail");
  CHECK(a.poll(1).value_or(frame{}).head == "a note");
  CHECK_FALSE(a.poll(1).has_value());
  CHECK(arrived == std::vector<std::string>{"control"});
  CHECK_THROWS_WITH(b->send(0, {frame_type::tensors, {}, {}}),
                    Catch::Matchers::ContainsSubstring("no connection"));
  std::thread leaving([&] { b.reset(); });
  a.stop();
  leaving.join();
}
