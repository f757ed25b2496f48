// The system's descriptions of control groups: the lines of proc/self/cgroup
// and, after an empty line, of proc/self/mountinfo.
#include <filesystem>

#include "../temporary_folder.hpp"
#include "parse.hpp"
#include "troupe/engine/device/cgroup_limits.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  static const testing::temporary_folder root;
  std::filesystem::create_directories(root / "proc/self");
  root.write("memory.max", "4096\n");
  root.write("cpu.max", "50000 100000\n");
  return testing::parse(data, size, [](std::string_view text) {
    const auto end = std::min(text.find("\n\n"), text.size());
    root.write("proc/self/cgroup", text.substr(0, end));
    root.write("proc/self/mountinfo",
               text.substr(std::min(end + 2, text.size())));
    const auto limits = read_cgroup_limits(root / "");
    testing::require(limits.memory_bytes.value_or(0) >= 0
                     && limits.cpus.value_or(1) > 0);
  });
}
