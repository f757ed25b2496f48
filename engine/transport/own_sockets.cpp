#include "troupe/engine/transport/own_sockets.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <limits>
#include <map>

#include "troupe/base/fnv_hash.hpp"
#include "troupe/base/names.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/engine/transport/address/own_folder.hpp"
#include "troupe/engine/transport/stream/listener.hpp"

namespace troupe {

std::string own_socket(const std::string& name) {
  const auto folder = find_own_folder().path;
  remove_dead_sockets(folder);
  return fmt::format("unix:{}/{}.sock", folder, name);
}

std::string own_endpoint() {
  return own_socket(fmt::format("{}-{}", ::getpid(), random_digits(1)));
}

std::string job_endpoint(const std::string& job) {
  fnv_hash hash;
  hash.add(job);
  constexpr auto most = std::uint64_t{std::numeric_limits<pid_t>::max()};
  return own_socket(fmt::format("{}-job", 1 + hash.value() % most));
}

std::vector<std::string> own_endpoints() {
  std::multimap<std::int64_t, std::string> by_process;
  std::error_code ignored;
  for (const auto& folder : own_folders())
    for (const auto& entry :
         std::filesystem::directory_iterator(folder, ignored)) {
      const auto& path = entry.path();
      const auto name = path.stem().string();
      const auto process = parse_number<pid_t>(name.substr(0, name.find('-')));
      if (process && *process > 0 && path.extension() == ".sock"
          && entry.is_socket(ignored) && has_listener(path.string()))
        by_process.emplace(*process, "unix:" + path.string());
    }
  std::vector<std::string> all;
  for (const auto& [process, endpoint] : by_process)
    all.push_back(endpoint);
  return all;
}

}  // namespace troupe
