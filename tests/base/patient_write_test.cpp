#include "troupe/base/patient_write.hpp"

#include <unistd.h>
#include <catch2/catch_test_macros.hpp>

#include <array>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

using namespace troupe;

TEST_CASE("a text longer than a pipe is printed as its reader takes it") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  auto* out = ::fdopen(ends[1], "w");
  std::string sent;
  for (int i = 0; sent.size() < 300'000; ++i)
    sent += std::to_string(i) + "\n";
  std::string received;
  std::thread reader([&] {
    std::array<char, 5000> chunk{};
    for (;;) {
      const auto count = ::read(ends[0], chunk.data(), chunk.size());
      if (count <= 0)
        return;
      received.append(chunk.data(), static_cast<std::size_t>(count));
    }
  });
  CHECK(print_all(out, sent));
  std::fclose(out);
  reader.join();
  ::close(ends[0]);
  CHECK(received == sent);
}

TEST_CASE("threads' texts are printed one after the other") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  auto* out = ::fdopen(ends[1], "w");
  std::vector<std::jthread> threads;
  for (const char letter : {'a', 'b', 'c'})
    threads.emplace_back([out, letter] {
      for (int i = 0; i < 10; ++i)
        print_all(out, std::string(20'000, letter) + '\n');
    });
  std::jthread end([&] {
    threads.clear();
    std::fclose(out);
  });
  auto* in = ::fdopen(ends[0], "r");
  std::array<char, 30'000> line{};
  int whole = 0;
  while (std::fgets(line.data(), static_cast<int>(line.size()), in))
    whole += std::string(line.data()) == std::string(20'000, line[0]) + '\n';
  std::fclose(in);
  CHECK(whole == 30);
}

TEST_CASE("text that can't be printed is an error") {
  auto* full = std::fopen("/dev/full", "w");
  REQUIRE(full != nullptr);
  CHECK_FALSE(print_all(full, "a line\n"));
  CHECK(errno == ENOSPC);
  std::fclose(full);
}

TEST_CASE("a text is printed into memory") {
  std::array<char, 16> memory{};
  auto* out = ::fmemopen(memory.data(), memory.size(), "w");
  CHECK(print_all(out, "a line\n"));
  std::fclose(out);
  CHECK(std::string(memory.data()) == "a line\n");
}
