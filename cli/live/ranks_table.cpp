#include "troupe/cli/live/ranks_table.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/monitors/live/json_fields.hpp"
#include "troupe/monitors/progress.hpp"

namespace troupe::cli {

namespace {

using nlohmann::json;

using hosting_list = std::vector<std::int32_t>;

std::string ranks_of(const hosting_list& hosting, std::int32_t process) {
  std::string ranks;
  for (std::size_t i = 0; i < hosting.size(); ++i)
    if (hosting[i] == process)
      ranks += fmt::format("{}{}", ranks.empty() ? "" : " ", i);
  return ranks.empty() ? "none" : ranks;
}

/// The mean of a process's ranks, as far as it is known.
std::string busy_of(const json& answer, const hosting_list& hosting,
                    std::int32_t process) {
  const auto& busy = field_of(answer, "busy");
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < std::min(hosting.size(), busy.size()); ++i)
    if (hosting[i] == process && busy[i].is_number()) {
      sum += busy[i].get<double>();
      ++count;
    }
  return count == 0 ? "-" : fmt::format("{:.0f} %", 100 * sum / count);
}

/// The columns between a process's number and its ranks.
std::string columns_of(const json& answer, const hosting_list& hosting,
                       std::int32_t process) {
  const auto& members = field_of(answer, "members");
  const auto index = static_cast<std::size_t>(process);
  if (!members.is_array() || index >= members.size())
    return fmt::format("{:<9}{:<10}{:<7}", "-", "-", "-");
  return fmt::format("{:<9}{:<10}{:<7}",
                     field<std::int64_t>(members[index], "pid"),
                     duration_text(field<double>(members[index], "seconds")),
                     busy_of(answer, hosting, process));
}

std::string copies_text(const json& answer) {
  const auto& copied = field_of(answer, "copied");
  return copied.is_number_integer()
           ? fmt::format(
             "A second process holds each rank's state of step {}, or of a "
             "later one.\n",
             copied.get<std::int64_t>())
           : "No second process holds the ranks' states yet.\n";
}

}  // namespace

std::string ranks_table(const json& answer) {
  const bool heals = answer.contains("epoch");
  const auto hosting = field<hosting_list>(answer, "hosting");
  const auto replicas = field<std::int32_t>(answer, "replicas");
  std::string text;
  if (heals)
    text =
      fmt::format("epoch {}, step {}\n", field<std::int64_t>(answer, "epoch"),
                  field<std::int64_t>(answer, "step"));
  text += fmt::format(
    "process  {}ranks\n",
    heals ? fmt::format("{:<9}{:<10}{:<7}", "pid", "in it for", "busy") : "");
  for (std::int32_t p = 0; p < field<std::int32_t>(answer, "processes"); ++p)
    text +=
      fmt::format("{:<9}{}{}\n", p, heals ? columns_of(answer, hosting, p) : "",
                  ranks_of(hosting, p));
  if (replicas > 1)
    text += fmt::format("Replica d has the {} ranks from d x {} on.\n",
                        field<std::int32_t>(answer, "ranks"),
                        field<std::int32_t>(answer, "ranks"));
  return heals ? text + copies_text(answer) : text;
}

std::vector<std::int64_t> process_ids(const json& answer) {
  std::vector<std::int64_t> ids;
  if (answer.contains("members"))
    for (const auto& each : answer["members"])
      ids.push_back(field<std::int64_t>(each, "pid"));
  return ids;
}

}  // namespace troupe::cli
