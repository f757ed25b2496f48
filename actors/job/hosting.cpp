#include "troupe/actors/job/hosting.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "troupe/base/fail.hpp"

namespace troupe {

std::vector<std::int32_t> moved(std::vector<std::int32_t> hosting,
                                std::int32_t rank, std::int32_t process) {
  if (rank < 0 || std::cmp_greater_equal(rank, hosting.size()))
    fail(error_code::invalid_argument,
         "the job has no rank {} to move; its ranks are 0 to {}", rank,
         std::ssize(hosting) - 1);
  hosting[static_cast<std::size_t>(rank)] = process;
  return hosting;
}

std::vector<std::int32_t> drained(std::vector<std::int32_t> hosting,
                                  std::int32_t process,
                                  std::int32_t processes) {
  if (process < 0 || process >= processes)
    fail(error_code::invalid_argument,
         "the job has no process {} to drain; its processes are 0 to {}",
         process, processes - 1);
  if (processes == 1)
    fail(error_code::invalid_argument,
         "process 0 can't be drained: it is the only one of the job");
  std::map<std::int32_t, std::ptrdiff_t> loads;
  for (std::int32_t p = 0; p < processes; ++p)
    if (p != process)
      loads[p] = std::ranges::count(hosting, p);
  for (auto& host : hosting)
    if (host == process) {
      const auto least = std::ranges::min_element(
        loads, {}, [](const auto& each) { return each.second; });
      host = least->first;
      ++least->second;
    }
  return hosting;
}

std::string moves_between(const job_layout& before, const job_layout& after) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>>
    moves;
  for (std::size_t i = 0; i < before.hosting.size(); ++i)
    if (before.hosting[i] != after.hosting[i])
      moves[{before.hosting[i], after.hosting[i]}].push_back(i);
  std::string text;
  for (const auto& [ends, ranks] : moves) {
    text += fmt::format("{}rank{} ", text.empty() ? "" : "; ",
                        ranks.size() == 1 ? "" : "s");
    for (std::size_t i = 0; i < ranks.size(); ++i)
      text += fmt::format("{}{}",
                          i == 0                  ? ""
                          : i + 1 == ranks.size() ? " and "
                                                  : ", ",
                          ranks[i]);
    text += fmt::format("{} from process {} to process {}",
                        ends == moves.begin()->first ? " moved" : "",
                        ends.first, ends.second);
  }
  return text;
}

}  // namespace troupe
