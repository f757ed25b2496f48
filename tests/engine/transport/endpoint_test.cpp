#include "troupe/engine/transport/address/endpoint.hpp"
#include "troupe/engine/transport/own_sockets.hpp"

#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>

#include "../../files.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

endpoint at_path(const std::string& path) {
  return parse_endpoint("unix:" + path);
}

}  // namespace

TEST_CASE("endpoints are read and written") {
  CHECK(parse_endpoint("unix:/tmp/a.sock")
        == endpoint{true, "/tmp/a.sock", "", 0});
  CHECK(parse_endpoint("tcp:localhost:0")
        == endpoint{false, "", "localhost", 0});
  CHECK(parse_endpoint("tcp:[::1]:80") == endpoint{false, "", "::1", 80});
  for (const auto* text : {"unix:/a b", "tcp:localhost:7", "tcp:[::1]:80"})
    CHECK(to_text(parse_endpoint(text)) == text);
  for (const std::string text :
       {"", "unix:", "tcp:", "tcp:80", "tcp::80", "tcp:host:", "tcp:host:65536",
        "tcp:host:-1", "http:x", "/tmp/x"})
    CHECK_THROWS_AS(parse_endpoint(text), error);
  CHECK_THROWS_AS(parse_endpoint("unix:/" + std::string(108, 'x')), error);
}

TEST_CASE("a unix socket and its folder are its owner's alone") {
  const temporary_folder folder;
  const auto path = folder / "made/job.sock";
  {
    const listener listening(at_path(path));
    CHECK(mode_of(path) == 0600);
    CHECK(mode_of(folder / "made") == 0700);
  }
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("a live socket is refused, a stale one replaced") {
  const temporary_folder folder;
  const auto path = folder / "job.sock";
  {
    const listener first(at_path(path));
    CHECK_THROWS_MATCHES(listener(at_path(path)), error,
                         MessageMatches(ContainsSubstring("live job")));
    CHECK(std::filesystem::exists(path));
  }
  // A process that was killed leaves this.
  const auto address = addresses_of(at_path(path)).front();
  const auto handle = ::socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(::bind(handle, address.get(), address.size) == 0);
  ::close(handle);
  CHECK_NOTHROW(listener(at_path(path)));
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("sockets of dead jobs are swept up, and nothing else") {
  const temporary_folder folder;
  const listener alive(at_path(folder / "alive.sock"));
  const auto leave = [&](const std::string& name) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    (folder / name).copy(address.sun_path, sizeof address.sun_path - 1);
    const auto handle = ::socket(AF_UNIX, SOCK_STREAM, 0);
    REQUIRE(::bind(handle, reinterpret_cast<const sockaddr*>(&address),
                   sizeof address)
            == 0);
    ::close(handle);
  };
  leave("dead.sock");
  leave("new.sock");
  leave("other");
  folder.write("file.sock", "text");
  const timespec long_ago[2] = {{1, 0}, {1, 0}};
  for (const auto* name : {"alive.sock", "dead.sock", "other", "file.sock"})
    ::utimensat(AT_FDCWD, (folder / name).c_str(), long_ago,
                AT_SYMLINK_NOFOLLOW);
  remove_dead_sockets(folder / "");
  CHECK_FALSE(std::filesystem::exists(folder / "dead.sock"));
  for (const auto* name : {"alive.sock", "new.sock", "other", "file.sock"})
    CHECK(std::filesystem::exists(folder / name));
  remove_dead_sockets(folder / "missing");  // nothing to do
  leave("meet-17-0badcafe");
  for (const auto* name : {"other", "meet-17-0badcafe"})
    ::utimensat(AT_FDCWD, (folder / name).c_str(), long_ago,
                AT_SYMLINK_NOFOLLOW);
  remove_dead_sockets(folder / "", "meet-", {});
  CHECK_FALSE(std::filesystem::exists(folder / "meet-17-0badcafe"));
  CHECK(std::filesystem::exists(folder / "other"));
}

TEST_CASE("a process has a new endpoint each time, named by its number") {
  const auto one = own_endpoint(), other = own_endpoint();
  CHECK(one != other);
  for (const auto& each : {one, other})
    CHECK_THAT(each, ContainsSubstring("/" + std::to_string(::getpid()) + "-"));
}

TEST_CASE("a path that is no socket is left alone") {
  const temporary_folder folder;
  const auto path = folder.write("precious", "text");
  CHECK_THROWS_MATCHES(listener(at_path(path)), error,
                       MessageMatches(ContainsSubstring("not a socket")));
  CHECK(std::filesystem::file_size(path) == 4);
  CHECK_THROWS_AS(listener(at_path(folder / "no/such/folder")), error);
}

TEST_CASE("port 0 takes a free one") {
  const listener listening(parse_endpoint("tcp:127.0.0.1:0"));
  CHECK(listening.where().port != 0);
  CHECK_THROWS_AS(listener(listening.where()), error);
}
