#include "troupe/engine/transport/repeated_call.hpp"

#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

using namespace troupe;

TEST_CASE("a repeated call goes on after one that throws") {
  io_loop loop;
  std::atomic<int> troubles = 0;
  loop.run([&] { loop.on_trouble([&](const std::string&) { ++troubles; }); });
  int calls = 0;
  std::promise<void> third;
  const repeated_call repeated(loop, std::chrono::milliseconds(1), [&] {
    if (++calls == 3)
      third.set_value();
    if (calls < 3)
      throw std::runtime_error("once more");
  });
  third.get_future().get();
  CHECK(troubles == 2);
}

TEST_CASE("a repeated call uses nothing once it has stopped") {
  io_loop loop;
  for (int i = 0; i < 200; ++i) {
    auto used = std::make_unique<std::atomic<int>>();
    repeated_call repeated(loop, std::chrono::milliseconds(0),
                           [&used] { ++*used; });
    while (*used == 0)
      std::this_thread::yield();
    repeated.stop();
    used.reset();  // a later call would use null
  }
}
