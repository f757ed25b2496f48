#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>

#include "../../temporary_folder.hpp"
#include "joined_processes.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/trust/certificates.hpp"

using namespace troupe;
using namespace troupe::testing;
using Catch::Matchers::ContainsSubstring;

namespace {

/// Processes whose launchers report two processes per machine.
std::vector<job_options> on_machines(const std::vector<std::string>& names,
                                     line_kind lines) {
  const auto count = static_cast<std::int32_t>(names.size());
  const auto where = free_port();
  std::vector<job_options> all;
  for (std::int32_t p = 0; p < count; ++p) {
    all.push_back(options_of(p, count, where));
    all.back().place.local_processes = 2;
    all.back().machine = names[static_cast<std::size_t>(p)];
    all.back().shown.token = std::string(32, 't');
    all.back().lines = lines;
  }
  return all;
}

}  // namespace

namespace {

/// During its lifetime, the user's own folder is in this one, which is created.
class folder_of_user {
 public:
  explicit folder_of_user(const std::string& within) {
    std::filesystem::create_directories(within);
    if (const auto* was = std::getenv("XDG_RUNTIME_DIR"))
      before_ = was;
    ::setenv("XDG_RUNTIME_DIR", within.c_str(), 1);
  }
  ~folder_of_user() {
    if (before_)
      ::setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    else
      ::unsetenv("XDG_RUNTIME_DIR");
  }
  folder_of_user(const folder_of_user&) = delete;
  folder_of_user& operator=(const folder_of_user&) = delete;

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("processes of one machine of several are joined within it") {
  const temporary_folder folder;
  const folder_of_user here(folder / "own");
  for (const auto lines : {line_kind::socket, line_kind::shared_memory}) {
    auto job = join_all(on_machines({"a", "b", "b", "a"}, lines));
    REQUIRE(job.errors == std::vector<std::string>(4));
    check_talk(std::move(job.meshes));
  }
}

TEST_CASE("no TCP is needed within a machine of several") {
  const temporary_folder folder;
  const folder_of_user here(folder / "own");
  auto all = on_machines({"", "", ""}, line_kind::socket);
  for (auto& each : all)
    each.announced = "127.0.0.1:1";  // nobody listens there
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("processes that have no folder in common are joined by TCP") {
  const temporary_folder folder;
  const folder_of_user here(folder / ("long" + std::string(80, 'g')));
  std::mutex mutex;
  std::string news;
  auto all = on_machines({"", "", ""}, line_kind::socket);
  for (auto& each : all)
    each.news = [&](const std::string& text) {
      const std::scoped_lock lock(mutex);
      news += text;
    };
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(3));
  CHECK_THAT(news, ContainsSubstring("are joined by TCP"));
  check_talk(std::move(job.meshes));
}

TEST_CASE("a token beside certificates is not asked for within a machine") {
  const temporary_folder folder;
  const folder_of_user here(folder / "own");
  const auto certificates = folder / "certificates";
  make_certificates(certificates);
  auto all = on_machines({"", "", ""}, line_kind::socket);
  all[1].shown.token.clear();
  for (auto& each : all)
    each.shown.certificates = certificates;
  auto job = join_all(all);
  REQUIRE(job.errors == std::vector<std::string>(3));
  check_talk(std::move(job.meshes));
}

TEST_CASE("a process on another or an unknown machine is met over TCP") {
  const process_address a{"tcp:a", "m", "unix:a"}, b{"tcp:b", "m", "unix:b"},
    elsewhere{"tcp:c", "n", "unix:c"}, silent{"tcp:d"};
  CHECK(way_to(a, b) == "unix:a");
  CHECK(way_to(a, elsewhere) == "tcp:a");
  CHECK(way_to(elsewhere, a) == "tcp:c");
  CHECK(way_to(a, silent) == "tcp:a");
  CHECK(way_to(silent, silent) == "tcp:d");
}

TEST_CASE("shared memory is said to be of no use between machines") {
  std::mutex mutex;
  std::string news;
  std::vector<job_options> all;
  const auto where = free_port();
  for (int p = 0; p < 2; ++p) {
    all.push_back(options_of(p, 2, where));
    all.back().shown.token = std::string(32, 't');
    all.back().lines = line_kind::shared_memory;
    all.back().news = [&](const std::string& text) {
      const std::scoped_lock lock(mutex);
      news += text;
    };
  }
  const auto job = join_all(all);
  CHECK(job.errors == std::vector<std::string>(2));
  CHECK_THAT(news, ContainsSubstring("--link shared has no effect"));
}
