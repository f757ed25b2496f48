#include "troupe/cli/train/train_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/cli/train/train_profile.hpp"
#include "troupe/engine/checkpoint/fresh_folder.hpp"
#include "troupe/engine/models/companion_files.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/monitors/sinks/sink_spec.hpp"
#include "troupe/monitors/spec/monitor_spec.hpp"

namespace troupe::cli {

namespace {

enum class content {
  file,
  folder,  // holds no files of others
  fresh,   // must not hold or be in anything else
  shared   // may hold anything but a fresh folder
};

struct used_file {
  const char* flag;
  std::string path;
  content kind = content::file;
  bool is_folder() const { return kind != content::file; }
};

/// A slash at the end of a monitor's or sink's path marks a folder.
used_file output_of(const char* flag, const std::string& path) {
  return {flag, path, path.ends_with('/') ? content::folder : content::file};
}

/// The path with links resolved; unchanged if they lead nowhere.
std::filesystem::path place_of(const used_file& file) {
  std::error_code trouble;
  auto path = file.path;
  while (file.is_folder() && path.size() > 1 && path.ends_with('/'))
    path.pop_back();
  const auto written = std::filesystem::absolute(path, trouble);
  const auto found = std::filesystem::weakly_canonical(written, trouble);
  return trouble ? written.lexically_normal() : found;
}

/// Whether they have one path, or are two names of one file (hard links).
bool is_same(const used_file& a, const used_file& b) {
  std::error_code trouble;
  return place_of(a) == place_of(b)
         || (!a.is_folder() && !b.is_folder()
             && std::filesystem::equivalent(a.path, b.path, trouble));
}

/// Whether the paths are equal, or the first one leads through the second one.
bool is_within(const used_file& a, const used_file& b) {
  if (is_same(a, b))
    return true;
  const auto inner = place_of(a), outer = place_of(b);
  return std::ranges::mismatch(inner, outer).in2 == outer.end();
}

/// Whether the first one is in the second one, which must not contain it.
bool intrudes(const used_file& inner, const used_file& outer) {
  if (!is_within(inner, outer))
    return false;
  switch (outer.kind) {
    case content::file:
    case content::fresh:
      return true;
    case content::folder:
      return !inner.is_folder();
    case content::shared:
      return !inner.is_folder() && place_of(inner) == place_of(outer);
  }
  return true;
}

/// A phrase such as "is also the file of".
std::string relation(const used_file& a, const used_file& b) {
  const auto* how = is_same(a, b)     ? "is also"
                    : is_within(a, b) ? "is in"
                                      : "holds";
  return fmt::format("{} the {} of", how, b.is_folder() ? "folder" : "file");
}

std::vector<used_file> read_of_data(const data_options& o) {
  std::vector<used_file> all;
  for (const std::filesystem::path path : o.text) {
    all.push_back({"--text", path});
    // A text of Megatron-LM consists of two files.
    for (const auto& [one, other] :
         {std::pair(".bin", ".idx"), std::pair(".idx", ".bin")})
      if (path.extension() == one)
        all.push_back(
          {"--text", std::filesystem::path(path).replace_extension(other)});
  }
  for (const auto& path : o.loss_mask)
    all.push_back({"--loss-mask", path});
  return all;
}

std::vector<used_file> read_of_model(const model_flags& o) {
  std::vector<used_file> all{{"--initial", o.initial}};
  std::error_code trouble;
  if (o.is_folder())
    for (const auto& file :
         std::filesystem::directory_iterator(o.name, trouble))
      if (file.is_regular_file(trouble))
        all.push_back({"--model", file.path()});
  return all;
}

std::vector<used_file> secrets_read_by(const train_options& o) {
  std::vector<used_file> all{
    {"--endpoint-token-file", o.access.endpoint_token_file},
    {"--endpoint-control-token-file", o.access.endpoint_control_token_file},
    {"--dashboard-token-file", o.access.dashboard_token_file},
    {"--job-token-file", o.processes.trust.token_file}};
  for (const auto& spec : o.monitoring.sinks)
    all.push_back({"--sink", sink_input(spec)});
  if (const auto& set = o.processes.trust.shown.certificates; !set.empty())
    for (const auto* name : {"authority.pem", "member.pem", "member.key"})
      all.push_back({"--certificates", set + "/" + name});
  return all;
}

std::vector<used_file> read_by(const train_options& o) {
  std::vector<used_file> all{
    {"--config", o.config},
    {"--schedule", o.partition.schedule},
    {"--plan", o.partition.plan},
    {"--replay", o.order.replay},
    {"--checkpoints", o.checkpoints.folder, content::shared}};
  for (auto&& part :
       {read_of_data(o.data), read_of_model(o.model), secrets_read_by(o)})
    all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<used_file> written_by(const train_options& o) {
  std::vector<used_file> all{{"--trace", o.monitoring.trace},
                             {"--timeline", o.monitoring.timeline},
                             {"--costs-out", o.monitoring.costs},
                             {"--log-json", o.monitoring.metrics},
                             {"--order-log", o.monitoring.order_log},
                             {"--dashboard-save", o.access.dashboard_save},
                             {"--profile", profile_file(o.output)},
                             {"--save-initial", o.output.save_initial},
                             {"--save-parameters", o.output.save_parameters}};
  all.push_back({"--save-model", o.output.save_model, content::fresh});
  all.push_back({"--save-adapter", o.output.save_adapter, content::fresh});
  for (const auto& spec : o.monitoring.monitors)
    for (const auto& path : monitor_outputs(spec))
      all.push_back(output_of("--monitor", path));
  for (const auto& spec : o.monitoring.sinks)
    all.push_back(output_of("--sink", sink_output(spec)));
  return all;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> written_files(
  const train_options& options) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const auto& file : written_by(options))
    if (!file.path.empty() && !file.path.starts_with("/dev/"))
      all.emplace_back(file.flag, file.path);
  if (!options.checkpoints.folder.empty())
    all.emplace_back("--checkpoints", options.checkpoints.folder);
  return all;
}

void require_outputs(const train_options& o) {
  if (!o.output.save_model.empty() && o.model.is_folder())
    require_copyable(o.model.name);
  auto files = read_by(o);
  for (const auto& file : written_by(o)) {
    if (file.path.empty())
      continue;
    const auto same = std::ranges::find_if(files, [&](const auto& other) {
      return !other.path.empty()
             && (intrudes(file, other) || intrudes(other, file));
    });
    if (same != files.end() && !file.path.starts_with("/dev/"))
      fail(error_code::invalid_argument, "{} {} {} {}; give each its own",
           file.flag, file.path, relation(file, *same), same->flag);
    if (file.kind == content::fresh)
      require_free(file.path);
    if (!file.is_folder()) {
      require_writable(file.path);
      remove_abandoned_temporaries(file.path);
    }
    files.push_back(file);
  }
}

}  // namespace troupe::cli
