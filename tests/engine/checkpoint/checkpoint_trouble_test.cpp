// Folders of checkpoints when the file system or another process fails.
#include <ATen/ops/equal.h>
#include <fmt/format.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fcntl.h>
#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "../../says.hpp"
#include "prepared_folder.hpp"
#include "troupe/base/error.hpp"

using namespace troupe;
using namespace troupe::testing;

namespace {

bool leads_to(int descriptor, const std::string& path) {
  std::error_code trouble;
  return !path.empty()
         && std::filesystem::equivalent(
           fmt::format("/proc/self/fd/{}", descriptor), path, trouble);
}

/// During its lifetime, renames from or to a path with this ending fail.
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

/// During its lifetime, the folders that are now in this one behave as in the
/// lower layer of an overlay file system, which can't rename them.
struct lower_layer {
  explicit lower_layer(const std::string& folder) {
    for (const auto& each : std::filesystem::directory_iterator(folder))
      if (each.is_directory())
        folders.insert(each.path().string());
  }
  lower_layer(const lower_layer&) = delete;
  lower_layer& operator=(const lower_layer&) = delete;
  ~lower_layer() { folders.clear(); }

  static bool has(const std::string& path) { return folders.contains(path); }
  static inline std::set<std::string> folders{};
};

/// During its lifetime, this folder can't be synchronised.
struct unsynchronised_folder {
  unsynchronised_folder(std::string path, int why) {
    name = std::move(path);
    reason = why;
  }
  unsynchronised_folder(const unsynchronised_folder&) = delete;
  unsynchronised_folder& operator=(const unsynchronised_folder&) = delete;
  ~unsynchronised_folder() { name.clear(); }

  static bool is(int descriptor) { return leads_to(descriptor, name); }
  static inline std::string name{};
  static inline int reason = 0;
};

/// During its lifetime, calls a function before each read at an offset of this
/// file. The read fails with the returned errno, or proceeds at 0.
struct watched_reads {
  watched_reads(std::string path, std::function<int()> what) {
    name = std::move(path);
    happens = std::move(what);
  }
  watched_reads(const watched_reads&) = delete;
  watched_reads& operator=(const watched_reads&) = delete;
  ~watched_reads() { name.clear(); }

  static int before(int descriptor) {
    return leads_to(descriptor, name) ? happens() : 0;
  }
  static inline std::string name{};
  static inline std::function<int()> happens{};
};

/// A file that is missing at first. It appears after a failed attempt to open
/// it, or when `appear` is called.
struct late_file {
  explicit late_file(const std::string& path) {
    std::filesystem::rename(path, path + ".held");
    name = path;
  }
  late_file(const late_file&) = delete;
  late_file& operator=(const late_file&) = delete;
  ~late_file() { name.clear(); }

  static void appear() {
    if (const auto now = std::exchange(name, {}); !now.empty())
      std::filesystem::rename(now + ".held", now);
  }
  static inline std::string name{};
};

}  // namespace

// Replaces the system's functions, which a test can't make fail.
extern "C" int rename(const char* from, const char* to) {
  if (refused_renames::has(from) || refused_renames::has(to)) {
    errno = EACCES;
    return -1;
  }
  if (lower_layer::has(from)) {
    errno = EXDEV;
    return -1;
  }
  return static_cast<int>(
    ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

extern "C" int open(const char* path, int flags, ...) {
  va_list more;
  va_start(more, flags);
  const auto mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : mode_t{};
  va_end(more);
  const auto opened =
    static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
  if (opened < 0 && path == late_file::name) {
    late_file::appear();
    errno = ENOENT;
  }
  return opened;
}

extern "C" int fsync(int descriptor) {
  if (unsynchronised_folder::is(descriptor)) {
    errno = unsynchronised_folder::reason;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

extern "C" ssize_t pread(int descriptor, void* out, std::size_t size,
                         off_t first) {
  if (const auto reason = watched_reads::before(descriptor); reason != 0) {
    errno = reason;
    return -1;
  }
  return ::syscall(SYS_pread64, descriptor, out, size, first);
}

TEST_CASE("a checkpoint is saved even if older ones can't be removed") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
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
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  for (std::int32_t part = 0; part < 2; ++part)
    folder.write_part(4, part, part_of(5, part));
  {
    const refused_renames second(".partial");
    CHECK_THROWS_MATCHES(folder.complete(manifest_of(4), 2, {}), error,
                         says("partial: can't be renamed: Permission denied"));
  }
  folder.discard(4);
  const stored_checkpoint checkpoint(folder.path_of(4));
  checkpoint.verify();
  CHECK(at::equal(checkpoint.read("last.weight"), part_of(4, 1)[0].second));
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("what an earlier replacement left does not hinder the next") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  std::filesystem::create_directories(at / "all/.step-00000004.replaced/more");
  CHECK(save(folder, 4).empty());
  stored_checkpoint(folder.path_of(4)).verify();
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("checkpoints in a lower layer are set aside, removed and replaced") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  for (const std::int64_t step : {1, 2, 3})
    CHECK(save(folder, step, {.last = 3}).empty());
  write_file(folder.path_of(3) + "/part-00001.safetensors", "damaged");
  {
    const lower_layer below(at / "all");
    folder.set_aside_after(2);
    CHECK(folder.steps() == std::vector<std::int64_t>{2, 1});
    CHECK(entries_in(folder.path_of(3) + ".damaged") == 3);
    CHECK(save(folder, 4, {.last = 1}).empty());
    CHECK(folder.steps() == std::vector<std::int64_t>{4});
  }
  {
    const lower_layer below(at / "all");
    CHECK(save(folder, 4).empty());
    stored_checkpoint(folder.path_of(4)).verify();
    CHECK(entries_in(at / "all") == 2);
  }
  // A process that is killed during a replacement leaves this.
  std::filesystem::copy(folder.path_of(4), at / "all/.step-00000004.replaced");
  std::filesystem::remove(folder.path_of(4) + "/manifest.json");
  CHECK(folder.prepare().empty());
  stored_checkpoint(folder.path_of(4)).verify();
}

TEST_CASE("a checkpoint that another process gave up is nobody's any more") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  const checkpoint_folder other(at / "all");
  other.refuse(5);  // before the others begin
  CHECK_THROWS_MATCHES(folder.write_part(5, 0, part_of(5, 0)), error,
                       says("could not write its part"));
  folder.write_part(6, 0, part_of(6, 0));
  other.refuse(6);
  CHECK_THROWS_MATCHES(folder.complete(manifest_of(6), 2, {}), error,
                       says("could not write its part"));
  CHECK(save(folder, 7).empty());
  CHECK(entries_in(at / "all") == 1);
}

TEST_CASE("a part that has changed or vanished ends the checkpoint") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  for (std::int32_t part = 0; part < 2; ++part)
    folder.write_part(6, part, part_of(6, part));
  const auto path =
    at / "all/.step-00000006.one.partial/part-00001.safetensors";
  SECTION("changed") {
    std::filesystem::resize_file(path, 8);
  }
  SECTION("vanished") {
    std::filesystem::remove(path);
  }
  CHECK_THROWS_MATCHES(folder.complete(manifest_of(6), 2, {.last = 1}), error,
                       says(path + ": has vanished, or another program has"));
  CHECK(folder.steps() == std::vector<std::int64_t>{4});
}

TEST_CASE("a vanished folder is not reported as another process's failure") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  folder.write_part(4, 0, part_of(4, 0));
  std::filesystem::remove_all(at / "all");
  CHECK_THROWS_MATCHES(folder.complete(manifest_of(4), 1, {}), error,
                       says("partial: has vanished; was it moved or removed?"));
}

TEST_CASE("older checkpoints stay if the folder can't be synchronised") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  {
    const unsynchronised_folder broken(at / "all", EIO);
    CHECK(save(folder, 6, {.last = 1})
          == at / "all: can't be synchronised: Input/output error");
  }
  CHECK(folder.steps() == std::vector<std::int64_t>{6, 4});
  CHECK(save(folder, 8, {.last = 1}).empty());
  CHECK(folder.steps() == std::vector<std::int64_t>{8});
}

TEST_CASE("older checkpoints go where folders are never synchronised") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  for (const auto reason : {EINVAL, ENOTSUP, ENOSYS, EBADF}) {
    const unsynchronised_folder simple(at / "all", reason);
    save(folder, 4);
    CHECK(save(folder, 6, {.last = 1}).empty());
    CHECK(folder.steps() == std::vector<std::int64_t>{6});
  }
}

TEST_CASE("a part that can't be read while it is verified is named") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  save(folder, 4);
  const stored_checkpoint checkpoint(folder.path_of(4));
  const auto path = folder.path_of(4) + "/part-00001.safetensors";
  {
    const watched_reads broken(path, [] { return EIO; });
    CHECK_THROWS_MATCHES(checkpoint.verify(), error,
                         says(path + ": can't be read: Input/output error"));
    CHECK_THROWS_MATCHES(stored_checkpoint(folder.path_of(4)), error,
                         says(path + ": can't be read: Input/output error"));
  }
  checkpoint.verify();
  const watched_reads shortened(path, [&] {
    std::filesystem::resize_file(path, 0);
    return 0;
  });
  CHECK_THROWS_MATCHES(checkpoint.verify(), error,
                       says(path + ": was shortened from"));
}

TEST_CASE("a part is seen whenever another process completes it") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  folder.write_part(4, 0, part_of(4, 0));
  const late_file receipt(
    at / "all/.step-00000004.one.partial/part-00000.safetensors.written");
  CHECK(folder
          .complete(manifest_of(4), 1, {},
                    [&] {
                      receipt.appear();
                      return false;
                    })
          .empty());
  stored_checkpoint(folder.path_of(4)).verify();
}

TEST_CASE("leftovers of a killed job that can't be removed are reported") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  std::filesystem::permissions(at / ".", std::filesystem::perms(0755));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0777));
  const auto leftover = at / "all/.step-00000004.other.partial";
  std::filesystem::create_directory(leftover);
  write_file(leftover + "/part-00000.safetensors", "some");
  // Root could remove it, so this thread accesses files as another user
  // meanwhile.
  const auto own = ::setfsuid(65534);
  CHECK_THAT(folder.prepare(),
             Catch::Matchers::StartsWith(leftover + ": can't be removed"));
  ::setfsuid(static_cast<uid_t>(own));
  CHECK(folder.prepare().empty());
  CHECK(entries_in(folder.path()) == 0);
}

TEST_CASE("a folder of checkpoints that can't be read is named") {
  const prepared_folder prepared;
  const auto& [at, folder] = prepared;
  std::filesystem::permissions(at / ".", std::filesystem::perms(0755));
  std::filesystem::permissions(folder.path(), std::filesystem::perms::none);
  // Root could read it, so this thread accesses files as another user
  // meanwhile.
  const auto own = ::setfsuid(65534);
  CHECK_THROWS_MATCHES(
    folder.steps(), error,
    says(folder.path() + ": can't be read: Permission denied"));
  ::setfsuid(static_cast<uid_t>(own));
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0755));
  CHECK(checkpoint_folder(at / "absent").steps().empty());
  CHECK(checkpoint_folder(at.write("file", "text")).steps().empty());
}
