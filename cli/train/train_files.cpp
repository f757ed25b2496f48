#include "troupe/cli/train/train_setup.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/models/fresh_folder.hpp"
#include "troupe/monitors/monitor_spec.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"

namespace troupe::cli {

namespace {

struct used_file {
  const char* flag;
  std::string path;
  bool is_folder() const { return path.ends_with('/'); }
};

/// Resolves links; the path as given if they lead nowhere.
std::filesystem::path place_of(const used_file& file) {
  std::error_code trouble;
  const auto end = file.path.size() - (file.is_folder() ? 1 : 0);
  const auto written =
    std::filesystem::absolute(file.path.substr(0, end), trouble);
  const auto found = std::filesystem::weakly_canonical(written, trouble);
  return trouble ? written.lexically_normal() : found;
}

/// Whether the files are equal, or one is in the other folder. Folders may be
/// shared.
bool meet(const used_file& a, const used_file& b) {
  if (a.is_folder() && !b.is_folder())
    return meet(b, a);
  if (a.is_folder())
    return false;
  const auto inner = place_of(a), outer = place_of(b);
  const auto parting = std::ranges::mismatch(inner, outer);
  return parting.in2 == outer.end()
         && (b.is_folder() || parting.in1 == inner.end());
}

std::vector<used_file> read_by(const train_options& o) {
  std::vector<used_file> all;
  for (const auto& path : o.data.text)
    all.push_back({"--text", path});
  all.push_back({"--initial", o.model.initial});
  if (o.model.is_folder())
    all.push_back({"--model", o.model.name + "/config.json"});
  all.push_back({"--schedule", o.partition.schedule});
  all.push_back({"--plan", o.partition.plan});
  all.push_back({"--endpoint-token-file", o.access.endpoint_token_file});
  all.push_back({"--dashboard-token-file", o.access.dashboard_token_file});
  all.push_back({"--job-token-file", o.processes.token_file});
  return all;
}

std::vector<used_file> written_by(const train_options& o) {
  std::vector<used_file> all{{"--trace", o.output.trace},
                             {"--timeline", o.output.timeline},
                             {"--costs-out", o.output.costs_out},
                             {"--log-json", o.output.log_json},
                             {"--save-initial", o.output.save_initial},
                             {"--save-parameters", o.output.save_parameters}};
  if (!o.output.save_model.empty())
    all.push_back({"--save-model", o.output.save_model + "/"});
  if (!o.output.save_adapter.empty())
    all.push_back({"--save-adapter", o.output.save_adapter + "/"});
  for (const auto& spec : o.output.monitor)
    for (const auto& path : monitor_outputs(spec))
      all.push_back({"--monitor", path});
  for (const auto& spec : o.output.sink)
    all.push_back({"--sink", sink_output(spec)});
  return all;
}

}  // namespace

void require_outputs(const train_options& o) {
  auto taken = read_by(o);
  for (const auto& file : written_by(o)) {
    if (file.path.empty())
      continue;
    const auto known = std::ranges::find_if(
      taken, [&](const used_file& other) { return meet(file, other); });
    if (known != taken.end() && !file.path.starts_with("/dev/"))
      fail(error_code::invalid_argument,
           "{} {} is also the file of {}; give each its own", file.flag,
           file.path, known->flag);
    if (file.flag == std::string_view("--save-model")
        || file.flag == std::string_view("--save-adapter"))
      require_free(file.path);
    if (!file.is_folder()) {
      require_writable(file.path);
      remove_abandoned_temporaries(file.path);
    }
    taken.push_back(file);
  }
}

}  // namespace troupe::cli
