#include "troupe/monitors/append_file.hpp"

#include <signal.h>
#include <sys/resource.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include "../files.hpp"
#include "../temporary_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using namespace troupe::testing;

namespace {

/// During its lifetime, no file of this process grows beyond a limit.
class largest_file {
 public:
  explicit largest_file(rlim_t bytes) : handler_(::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  largest_file(const largest_file&) = delete;
  ~largest_file() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  ::sighandler_t handler_;
};

}  // namespace

TEST_CASE("a piece is with the system when write returns") {
  const temporary_folder folder;
  const auto path = folder.write("log", "old");
  append_file file(path);
  CHECK(content(path).empty());
  file.write("one\n");
  CHECK(content(path) == "one\n");
  file.write("two\n");
  CHECK(content(path) == "one\ntwo\n");
}

TEST_CASE("of a piece that finds no room, nothing stays") {
  const temporary_folder folder;
  const auto path = folder / "log";
  append_file file(path);
  {
    const largest_file limit(10);
    file.write("123456\n");
    CHECK_THROWS_MATCHES(
      file.write("abcdef\n"), error,
      MessageMatches(ContainsSubstring(path + ": can't be written: ")));
    CHECK(content(path) == "123456\n");
    file.write("12\n");
  }
  file.write("there is room again\n");
  CHECK(content(path) == "123456\n12\nthere is room again\n");
}

TEST_CASE("a full device and a missing folder are io errors") {
  const temporary_folder folder;
  append_file full("/dev/full");
  for (const auto* path : {"full", "missing"})
    try {
      if (path == std::string("full"))
        full.write("x");
      else
        append_file(folder / "no/such/file");
      FAIL("no error");
    } catch (const error& problem) {
      CHECK(problem.code() == error_code::io);
    }
}

TEST_CASE("pieces of several threads don't mix") {
  const temporary_folder folder;
  const auto path = folder / "log";
  append_file file(path);
  std::vector<std::thread> threads;
  for (const char letter : {'a', 'b', 'c', 'd'})
    threads.emplace_back([&file, letter] {
      std::string line(100, letter);
      line.back() = '\n';
      for (int i = 0; i < 200; ++i)
        file.write(line);
    });
  for (auto& thread : threads)
    thread.join();
  std::ifstream in(path);
  int lines = 0;
  for (std::string line; std::getline(in, line); ++lines)
    REQUIRE(line == std::string(99, line.at(0)));
  CHECK(lines == 800);
}

TEST_CASE("a file that another one writes is refused, and keeps its lines") {
  const temporary_folder folder;
  const auto path = folder / "log";
  {
    append_file first(path);
    first.write("one\n");
    CHECK_THROWS_MATCHES(
      append_file(path), error,
      MessageMatches(ContainsSubstring(path + ": another job writes")));
    first.write("two\n");
    CHECK(content(path) == "one\ntwo\n");
  }
  const append_file second(path);
  CHECK(content(path).empty());
}

TEST_CASE("a file is taken over from a process that still writes it") {
  const temporary_folder folder;
  const auto path = folder.write("log", "");
  append_file stale(path);
  stale.write("1 one\n2 two\n");
  take_over_file(path);
  append_file own(path, lines_with_step(1, ""));
  stale.write("3 stale\n");
  own.write("2 new\n");
  CHECK(content(path) == "1 one\n2 new\n");
  take_over_file(folder / "missing");
  CHECK_FALSE(std::filesystem::exists(folder / "missing"));
}

TEST_CASE("a continued file keeps whole lines up to a step") {
  const temporary_folder folder;
  const auto rest_of = [&](const std::string& text, std::int64_t step) {
    const auto path = folder.write("lines", text);
    append_file(path, lines_with_step(step, "")).write("new\n");
    return content(path);
  };
  const std::string head = "step,name\n", one = "1,a\n", two = "2,b\n2,c\n";
  CHECK(rest_of(head + one + two, 2) == head + one + two + "new\n");
  CHECK(rest_of(head + one + two, 1) == head + one + "new\n");
  CHECK(rest_of(head + one + "2,", 2) == head + one + "new\n");
  CHECK(rest_of(head + one + two, 0) == "new\n");
  CHECK(rest_of("", 3) == "new\n");
  // Longer than a single read, with a later step in it.
  const std::string long_line = "1," + std::string(200'000, 'x') + "\n";
  CHECK(rest_of(long_line + long_line + two, 1)
        == long_line + long_line + "new\n");
  CHECK(rest_of(long_line + two + one, 1) == long_line + "new\n");
}
