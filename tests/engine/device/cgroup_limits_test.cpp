#include "troupe/engine/device/cgroup_limits.hpp"

#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <string>

#include "../../temporary_folder.hpp"
#include "troupe/engine/device/memory.hpp"

using namespace troupe;

namespace {

/// A root folder with the files that the system has in /proc and /sys.
class shown_system {
 public:
  shown_system(const std::string& groups, const std::string& mounts) {
    write("proc/self/cgroup", groups);
    write("proc/self/mountinfo",
          "22 1 0:21 / /proc rw,relatime - proc proc rw\n" + mounts);
  }
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(
      std::filesystem::path(folder_ / path).parent_path());
    folder_.write(path, text);
  }
  cgroup_limits limits() const { return read_cgroup_limits(folder_ / ""); }

 private:
  testing::temporary_folder folder_;
};

constexpr auto version_2 =
  "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
constexpr auto version_1 =
  "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n"
  "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n";

}  // namespace

TEST_CASE("without control groups there is no limit") {
  const testing::temporary_folder empty;
  const auto limits = read_cgroup_limits(empty / "");
  CHECK_FALSE(limits.memory_bytes);
  CHECK_FALSE(limits.cpus);
  const shown_system unlimited("0::/user/job\n", version_2);
  unlimited.write("sys/fs/cgroup/user/job/memory.max", "max\n");
  unlimited.write("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  CHECK_FALSE(unlimited.limits().memory_bytes);
  CHECK_FALSE(unlimited.limits().cpus);
}

TEST_CASE("limits of version 2: the least of a group and those around it") {
  const shown_system shown("0::/user/job\n", version_2);
  shown.write("sys/fs/cgroup/user/job/memory.max", "2147483648\n");
  shown.write("sys/fs/cgroup/user/memory.max", "1073741824\n");
  shown.write("sys/fs/cgroup/user/job/cpu.max", "50000 100000\n");
  shown.write("sys/fs/cgroup/user/cpu.max", "max 100000\n");
  CHECK(shown.limits().memory_bytes == std::int64_t{1} << 30);
  CHECK(shown.limits().cpus == 0.5);
}

TEST_CASE("limits of version 1") {
  const shown_system shown("4:memory:/job\n2:cpu,cpuacct:/job\n0::/\n",
                           version_1);
  shown.write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  shown.write("sys/fs/cgroup/memory/memory.limit_in_bytes",
              "9223372036854771712\n");
  shown.write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "150000\n");
  shown.write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  shown.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(shown.limits().memory_bytes == std::int64_t{1} << 30);
  CHECK(shown.limits().cpus == 1.5);
}

TEST_CASE("a container sees its own group as the mounted one") {
  // Without and with a namespace of control groups.
  for (const auto* groups : {"4:memory:/docker/7f\n", "4:memory:/\n"}) {
    const shown_system shown(
      groups,
      "35 31 0:32 /docker/7f /sys/fs/c\\040g rw - cgroup cgroup rw,memory\n");
    shown.write("sys/fs/c g/memory.limit_in_bytes", "1000\n");
    CHECK(shown.limits().memory_bytes == 1000);
  }
}

TEST_CASE("what makes no sense is no limit") {
  const shown_system shown("0::/job\nrubbish\n4:memory\n",
                           std::string(version_2) + "31 23 0:28 / - cgroup2\n");
  shown.write("sys/fs/cgroup/job/memory.max", "-5\n");
  shown.write("sys/fs/cgroup/job/cpu.max", "1 0\n");
  CHECK_FALSE(shown.limits().memory_bytes);
  CHECK_FALSE(shown.limits().cpus);
}

TEST_CASE("memory that can be used is the machine's or the group's") {
  CHECK(usable_bytes({}) == physical_bytes());
  CHECK(usable_bytes({.memory_bytes = 1000}) == 1000);
  CHECK(usable_bytes({.memory_bytes = physical_bytes() + 1})
        == physical_bytes());
  CHECK(usable_bytes() <= physical_bytes());
}
