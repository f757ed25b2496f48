// Folders of checkpoints where the file system or another process fails.
#include <ATen/ops/equal.h>
#include <catch2/catch_test_macros.hpp>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <future>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "../../says.hpp"
#include "prepared_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

/// While it lives, no rename from or to a path that ends so succeeds.
struct refused_renames {
  explicit refused_renames(std::string_view path_end) { end = path_end; }
  refused_renames(const refused_renames&) = delete;
  refused_renames& operator=(const refused_renames&) = delete;
  ~refused_renames() { end = {}; }

  static bool has(std::string_view path) {
    return !end.empty() && path.ends_with(end);
  }
  static inline std::string_view end{};
};

}  // namespace

// In place of the system's, which a test can't make fail.
extern "C" int rename(const char* from, const char* to) {
  if (refused_renames::has(from) || refused_renames::has(to)) {
    errno = EACCES;
    return -1;
  }
  return static_cast<int>(
    ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

TEST_CASE("a checkpoint is saved even if older ones can't be removed") {
  const prepared_folder made;
  const auto& [at, folder] = made;
  for (const std::int64_t step : {1, 2, 3})
    CHECK(save(folder, step, {.last = 3}).empty());
  {
    const refused_renames some(".step-00000002.removed");
    const auto problem = save(folder, 4, {.last = 1});
    CHECK(problem
          == folder.path_of(2) + ": can't be renamed: Permission denied");
  }
  CHECK(folder.steps() == std::vector<std::int64_t>{4, 2});
  stored_checkpoint(folder.path_of(4)).verify();
  CHECK(save(folder, 5, {.last = 1}).empty());
  CHECK(folder.steps() == std::vector<std::int64_t>{5});
}

TEST_CASE("a checkpoint that can't be replaced stays where it was") {
  const prepared_folder made;
  const auto& [at, folder] = made;
  save(folder, 4);
  for (std::int32_t part = 0; part < 2; ++part)
    folder.write_part(4, part, part_of(5, part));
  {
    const refused_renames second(".partial");
    CHECK_THROWS_MATCHES(folder.complete(manifest_of(4), 2, {}), error,
                         says("partial: can't be renamed: Permission denied"));
  }
  folder.discard(4);
  const stored_checkpoint found(folder.path_of(4));
  found.verify();
  CHECK(at::equal(found.read("last.weight"), part_of(4, 1)[0].second));
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("what an earlier replacement left does not hinder the next") {
  const prepared_folder made;
  const auto& [at, folder] = made;
  save(folder, 4);
  std::filesystem::create_directories(at / "all/.step-00000004.replaced/more");
  CHECK(save(folder, 4).empty());
  stored_checkpoint(folder.path_of(4)).verify();
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("a checkpoint that another process gave up is nobody's any more") {
  const prepared_folder made;
  const auto& [at, folder] = made;
  const checkpoint_folder other(at / "all");
  other.discard_for_all(5);  // before the others begin
  CHECK_THROWS_MATCHES(folder.write_part(5, 0, part_of(5, 0)), error,
                       says("could not write its part"));
  folder.write_part(6, 0, part_of(6, 0));
  other.discard_for_all(6);
  // A third one had begun to write.
  std::filesystem::create_directory(at / "all/.step-00000006.one.partial");
  CHECK_THROWS_MATCHES(folder.complete(manifest_of(6), 2, {}), error,
                       says("could not write its part"));
  CHECK(save(folder, 7).empty());
  CHECK(entries_in(at / "all") == 1);
}

// The receipt of the last part appears at a random moment around the second
// look for it, which follows the question whether to give up by 1 ms.
TEST_CASE("a part is seen whenever another process completes it") {
  const prepared_folder made;
  const auto& folder = made.folder;
  std::mt19937 random(1);
  for (std::int64_t step = 1; step <= 300; ++step) {
    folder.write_part(step, 0, part_of(step, 0));
    const auto at =
      fmt::format("{}/.step-{:08}.one.partial/part-00000", folder.path(), step);
    const auto receipt = at + ".safetensors.written";
    std::filesystem::rename(receipt, at);
    std::promise<void> looked;
    std::jthread other(
      [&, delay = std::chrono::microseconds(900 + random() % 400)] {
        looked.get_future().wait();
        const auto until = std::chrono::steady_clock::now() + delay;
        while (std::chrono::steady_clock::now() < until) {
        }
        std::filesystem::rename(at, receipt);
      });
    bool first = true;
    REQUIRE(folder
              .complete(manifest_of(step), 1, {.last = 1},
                        [&] {
                          if (std::exchange(first, false))
                            looked.set_value();
                          return false;
                        })
              .empty());
  }
}

TEST_CASE("a folder of checkpoints that can't be read is named") {
  const prepared_folder made;
  const auto& [at, folder] = made;
  std::filesystem::permissions(at / ".", std::filesystem::perms(0755));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::none);
  // Root could read it: this thread's files are another user's meanwhile.
  const auto own = ::setfsuid(65534);
  CHECK_THROWS_MATCHES(
    folder.steps(), error,
    says(folder.path() + ": can't be read: Permission denied"));
  ::setfsuid(static_cast<uid_t>(own));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  CHECK(checkpoint_folder(at / "absent").steps().empty());
  CHECK(checkpoint_folder(at.write("file", "text")).steps().empty());
}
