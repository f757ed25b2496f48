#include "troupe/engine/device/cgroup_limits.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/base/parse_number.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> parts_of(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream all(text);
  for (std::string part; std::getline(all, part, separator);)
    parts.push_back(part);
  return parts;
}

std::string first_line(const fs::path& file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

/// A version's own controller or, of version 2, all of them: "".
using group_paths = std::map<std::string, std::string, std::less<>>;

/// Lines such as `4:memory:/batch/job7`, `3:cpu,cpuacct:/` and `0::/job7`.
group_paths read_groups(const fs::path& file) {
  group_paths found;
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const auto path = line.substr(second + 1);
    const auto controllers = line.substr(first + 1, second - first - 1);
    if (controllers.empty())
      found[""] = path;
    for (const auto& each : parts_of(controllers, ','))
      found[each] = path;
  }
  return found;
}

/// The mount points have spaces and the like as \040.
std::string without_escapes(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const bool is_escape =
      text.size() >= 4 && text[0] == '\\'
      && text.substr(1, 3).find_first_not_of("01234567") == text.npos;
    plain += is_escape ? static_cast<char>(
               (text[1] - '0') * 64 + (text[2] - '0') * 8 + (text[3] - '0'))
                       : text[0];
    text.remove_prefix(is_escape ? 4 : 1);
  }
  return plain;
}

/// A line of mountinfo: `31 23 0:28 /job7 /sys/fs/cgroup/memory rw shared:9 -
/// cgroup cgroup rw,memory`.
struct mount_line {
  explicit mount_line(const std::string& line) : words(parts_of(line, ' ')) {
    const auto dash = std::ranges::find(words, "-");
    if (words.size() < 5 || words.end() - dash < 4)
      return;
    type = dash[1];
    options = parts_of(dash[3], ',');
    root = without_escapes(words[3]);
    point = without_escapes(words[4]);
  }
  bool has(const std::string& controller) const {
    return controller.empty()
             ? type == "cgroup2"
             : type == "cgroup"
                 && std::ranges::find(options, controller) != options.end();
  }

  std::vector<std::string> words;
  std::string type{};
  std::vector<std::string> options{};
  fs::path root{}, point{};  // within the hierarchy, and where that is mounted
};

/// The folders of a group and of those around it, the innermost first. A group
/// outside of what is mounted, as containers see their own, is the mounted one.
std::vector<fs::path> folders_of(const fs::path& root, const mount_line& mount,
                                 const std::string& group) {
  auto inner = fs::path(group).lexically_relative(mount.root);
  if (inner.empty() || *inner.begin() == "..")
    inner = ".";
  const auto top = root / mount.point.relative_path();
  std::vector<fs::path> folders;
  for (; inner != "." && !inner.empty(); inner = inner.parent_path())
    folders.push_back(top / inner);
  folders.push_back(top);
  return folders;
}

template <class Number>
void lower(std::optional<Number>& limit, std::optional<Number> value) {
  if (value && (!limit || *value < *limit))
    limit = value;
}

/// A file with a number of bytes, "max", or no limit as a huge number.
std::optional<std::int64_t> bytes_in(const fs::path& file) {
  constexpr std::int64_t no_limit = std::int64_t{1} << 62;
  const auto bytes = parse_number<std::int64_t>(first_line(file));
  return bytes && *bytes >= 0 && *bytes < no_limit ? bytes : std::nullopt;
}

/// "50000" in "100000": half of a processor. "max" and "-1": no limit.
std::optional<double> share_of(const std::string& quota,
                               const std::string& period) {
  const auto time = parse_number<std::int64_t>(quota);
  const auto whole = parse_number<std::int64_t>(period);
  if (!time || !whole || *time <= 0 || *whole <= 0)
    return {};
  return static_cast<double>(*time) / static_cast<double>(*whole);
}

void add_version_2(cgroup_limits& limits, const fs::path& folder) {
  lower(limits.memory_bytes, bytes_in(folder / "memory.max"));
  if (const auto words = parts_of(first_line(folder / "cpu.max"), ' ');
      words.size() == 2)
    lower(limits.cpus, share_of(words[0], words[1]));
}

void add_version_1(cgroup_limits& limits, const fs::path& folder) {
  lower(limits.memory_bytes, bytes_in(folder / "memory.limit_in_bytes"));
  lower(limits.cpus, share_of(first_line(folder / "cpu.cfs_quota_us"),
                              first_line(folder / "cpu.cfs_period_us")));
}

}  // namespace

cgroup_limits read_cgroup_limits(const fs::path& root) {
  const auto groups = read_groups(root / "proc/self/cgroup");
  cgroup_limits limits;
  std::ifstream lines(root / "proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);) {
    const mount_line mount(line);
    for (const auto* controller : {"", "memory", "cpu"}) {
      const auto group = groups.find(controller);
      if (group == groups.end() || !mount.has(controller))
        continue;
      for (const auto& folder : folders_of(root, mount, group->second))
        *controller == '\0' ? add_version_2(limits, folder)
                            : add_version_1(limits, folder);
    }
  }
  return limits;
}

}  // namespace troupe
