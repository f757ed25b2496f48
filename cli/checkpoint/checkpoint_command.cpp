#include "troupe/cli/commands.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/plan/checks.hpp"
#include "troupe/cli/plan/program.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"
#include "troupe/engine/checkpoint/folder_lock.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

namespace troupe::cli {

namespace {

constexpr auto checkpoint_help = R"(
A checkpoint is a folder that `troupe train --checkpoints DIR` wrote; given a
folder of several, the last one is meant. All but verify also take a safetensors
file, with tensors of any dtype of whole bytes.

Examples:
  troupe checkpoint inspect run/checkpoints
  troupe checkpoint inspect model.safetensors
  troupe checkpoint verify run/checkpoints/step-00000120
  troupe checkpoint consolidate run/checkpoints -o model.safetensors
  troupe checkpoint split model.safetensors --parts 4 -o split)";

struct file_settings {
  std::string path;
  std::string output;
  std::int32_t parts = 1;
  bool optimizer = false;
  bool json = false;
};

struct totals {
  std::int64_t tensors = 0, parameters = 0;
  std::uint64_t bytes = 0;
};

void add(totals& sum, const safetensors_entry& entry) {
  sum.bytes += entry.end - entry.begin;
  if (is_state_name(entry.name))
    return;
  ++sum.tensors;
  sum.parameters += entry.elements();
}

totals totals_of(const stored_checkpoint& checkpoint) {
  totals sum;
  for (const auto& name : checkpoint.names())
    add(sum, *checkpoint.find(name));
  return sum;
}

nlohmann::ordered_json json_of(const stored_checkpoint& checkpoint) {
  auto about = nlohmann::ordered_json::parse(to_json(checkpoint.about()));
  const auto sum = totals_of(checkpoint);
  about["folder"] = printable(checkpoint.folder());
  about["tensors"] = sum.tensors;
  about["parameters"] = sum.parameters;
  about["bytes"] = sum.bytes;
  return about;
}

/// Reads the file's header alone, neither its tensors nor their checksums.
nlohmann::ordered_json json_of(const safetensors_file& file) {
  totals sum;
  std::map<std::string, std::int64_t> dtypes;
  for (const auto& entry : file.entries()) {
    add(sum, entry);
    ++dtypes[safetensors_dtype(file.path(), entry.dtype)];
  }
  nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
  for (const auto& [name, value] : file.metadata())
    metadata[name] = value;
  return {{"file", printable(file.path())},
          {"tensors", sum.tensors},
          {"parameters", sum.parameters},
          {"bytes", sum.bytes},
          {"dtypes", dtypes},
          {"metadata", metadata}};
}

void inspect_file(const file_settings& options) {
  const auto about = json_of(safetensors_file(options.path));
  if (options.json)
    return print_now(about.dump(2) + "\n");
  auto text = fmt::format("{}\n{} parameters in {} tensors; {:.1f} MiB\n",
                          about["file"].get<std::string>(),
                          about["parameters"].dump(), about["tensors"].dump(),
                          about["bytes"].get<double>() / (1 << 20));
  for (const auto& [dtype, tensors] : about["dtypes"].items())
    text += fmt::format("{}: {} tensors\n", dtype, tensors.dump());
  for (const auto& [name, value] : about["metadata"].items())
    text += fmt::format("{}: {}\n", printable(name),
                        printable(value.get<std::string>()));
  print_now(text);
}

void inspect(const file_settings& options) {
  if (is_tensor_file(options.path))
    return inspect_file(options);
  const stored_checkpoint checkpoint(checkpoint_in(options.path));
  if (options.json)
    return print_now(json_of(checkpoint).dump(2) + "\n");
  const auto& about = checkpoint.about();
  const auto sum = totals_of(checkpoint);
  auto text = fmt::format(
    "{}\nrun {}, step {}, {} microbatches taken, loss scale {:.6g}\n"
    "{} parameters in {} tensors; with the optimizer's state {:.1f} MiB in {} "
    "files\n",
    printable(checkpoint.folder()), printable(about.run), about.progress.step,
    about.progress.microbatches, about.progress.loss_scale, sum.parameters,
    sum.tensors, static_cast<double>(sum.bytes) / (1 << 20),
    about.files.size());
  if (const auto name = about.not_finite(); !name.empty())
    text += fmt::format("not finite: '{}' holds a NaN or an infinity\n",
                        printable(name));
  for (const auto& [name, value] : about.settings)
    text += fmt::format("{}: {}\n", printable(name), printable(value));
  for (const auto& [name, value] : about.model)
    text += fmt::format("model's {}: {}\n", printable(name), printable(value));
  for (const auto& [alias, owner] : about.aliases)
    text += fmt::format("{} is {}\n", printable(alias), printable(owner));
  print_now(text);
}

void verify(const file_settings& options) {
  const stored_checkpoint checkpoint(checkpoint_in(options.path));
  checkpoint.verify();
  print_now(fmt::format("{}: {} files match the manifest\n",
                        printable(checkpoint.folder()),
                        checkpoint.about().files.size()));
}

/// Writing into the checkpoint's own folder would destroy it, or leave a file
/// in it that does not belong there.
void require_outside(const file_settings& options) {
  namespace fs = std::filesystem;
  if (is_tensor_file(options.path))
    return;
  const auto own = checkpoint_in(options.path);
  std::error_code trouble;
  const auto is_own = [&](const fs::path& folder) {
    return fs::equivalent(folder, own, trouble);
  };
  auto at =
    fs::weakly_canonical(fs::absolute(options.output, trouble), trouble);
  while (!is_own(at) && at.has_relative_path())
    at = at.parent_path();
  if (is_own(at))
    fail(error_code::invalid_argument,
         "-o {}: is in the folder of the checkpoint itself; write elsewhere",
         printable(options.output));
}

/// All texts of a file's metadata, as they may describe how it was quantised.
std::map<std::string, std::string> metadata_of(const std::string& path) {
  std::map<std::string, std::string> texts;
  if (is_tensor_file(path))
    texts = safetensors_file(path).metadata();
  texts.merge(model_metadata(stored_texts(path)));
  return texts;
}

void consolidate(const file_settings& options) {
  require_outside(options);
  const auto tensors = stored_tensors(options.path, options.optimizer);
  const auto written =
    write_safetensors(options.output, tensors, metadata_of(options.path));
  print_now(fmt::format("{}: {} tensors, {} bytes\n", printable(options.output),
                        tensors.size(), written.bytes));
}

/// Splits tensors, in their order, into parts of about equal size in bytes.
std::vector<parameter_list> parts_of(const parameter_list& tensors,
                                     std::int32_t count) {
  double total = 0;
  for (const auto& [name, value] : tensors)
    total += static_cast<double>(value.nbytes());
  std::vector<parameter_list> parts(static_cast<std::size_t>(count));
  double before = 0;
  for (const auto& each : tensors) {
    const auto part =
      total > 0 ? std::min<double>(count - 1, before / total * count) : 0;
    parts[static_cast<std::size_t>(part)].push_back(each);
    before += static_cast<double>(each.second.nbytes());
  }
  return parts;
}

manifest manifest_for(const std::string& path) {
  if (is_tensor_file(path))
    return {.run = new_run_name(), .model = stored_texts(path)};
  return stored_checkpoint(checkpoint_in(path)).about();
}

/// The folders of a path that don't exist, the innermost first.
std::vector<std::filesystem::path> absent_folders(std::filesystem::path path) {
  if (!path.has_filename())
    path = path.parent_path();
  std::vector<std::filesystem::path> absent;
  std::error_code trouble;
  for (; !path.empty() && !std::filesystem::exists(path, trouble) && !trouble;
       path = path.parent_path())
    absent.push_back(path);
  return absent;
}

void remove_empty(const std::vector<std::filesystem::path>& folders) {
  std::error_code trouble;
  for (const auto& folder : folders)
    std::filesystem::remove(folder, trouble);
}

void require_none(const checkpoint_folder& folder) {
  if (const auto steps = folder.steps(); !steps.empty())
    fail(error_code::invalid_argument,
         "-o {}: already holds a checkpoint of step {}; give another folder",
         printable(folder.path()), steps.front());
}

void write_whole(const checkpoint_folder& to, manifest about,
                 const std::vector<parameter_list>& parts) {
  const auto step = about.progress.step;
  const auto count = static_cast<std::int32_t>(parts.size());
  try {
    for (std::int32_t part = 0; part < count; ++part)
      to.write_part(step, part, parts[static_cast<std::size_t>(part)]);
    const auto problem = to.complete(std::move(about), count, {});
    if (!problem.empty())
      spdlog::warn("the checkpoint is complete, but: {}", problem);
  } catch (...) {
    to.discard(step);
    throw;
  }
}

void split(const file_settings& options) {
  require_outside(options);
  const checkpoint_folder to(options.output);
  require_none(to);
  auto about = manifest_for(options.path);
  const auto step = about.progress.step;
  const auto tensors = stored_tensors(options.path, true);
  if (options.parts > std::max<std::int64_t>(1, std::ssize(tensors)))
    fail(error_code::invalid_argument,
         "--parts {}: there are {} tensors, each of which is in one part; use "
         "at most {}",
         options.parts, tensors.size(), tensors.size());
  const auto parts = parts_of(tensors, options.parts);
  const auto absent = absent_folders(options.output);
  try {
    const folder_lock own(options.output);
    if (const auto problem = to.prepare(); !problem.empty())
      spdlog::warn("a file of an earlier run remains: {}", problem);
    require_none(to);  // again, as an interrupted replacement may be restored
    write_whole(to, std::move(about), parts);
  } catch (...) {
    remove_empty(absent);
    throw;
  }
  print_now(
    fmt::format("{}: {} parts\n", printable(to.path_of(step)), options.parts));
}

CLI::App* add_action(CLI::App& command, const char* name, const char* summary,
                     const std::shared_ptr<file_settings>& options,
                     void (*action)(const file_settings&), const char* what) {
  auto* action_command = command.add_subcommand(name, summary);
  add_value(*action_command, "path PATH", options->path, what)->required();
  action_command->callback([options, action] { action(*options); });
  return action_command;
}

}  // namespace

void add_checkpoint_command(CLI::App* command) {
  command->require_subcommand(1);
  const auto options = std::make_shared<file_settings>();
  constexpr auto folder = "a checkpoint, or a folder of them";
  constexpr auto any = "a checkpoint, a folder of them, or a .safetensors file";
  add_action(*command, "inspect",
             "show the contents of a checkpoint or a parameter file", options,
             inspect, any)
    ->add_flag("--json", options->json,
               "its manifest or metadata, and tensors, parameters, bytes");
  add_action(*command, "verify", "verify the SHA-256 of every file", options,
             verify, folder);
  auto* whole = add_action(
    *command, "consolidate",
    "write all parameters to one file, for train --initial and other programs",
    options, consolidate, any);
  add_value(*whole, "-o,--output FILE.safetensors", options->output, "the file")
    ->required();
  whole->add_flag("--optimizer", options->optimizer,
                  "include the optimizer state");
  auto* parts = add_action(*command, "split",
                           "split a checkpoint or a parameter file into "
                           "several files, for train --resume",
                           options, split, any);
  add_value(*parts, "-o,--output DIR", options->output,
            "a folder; created if missing")
    ->required();
  add_value(*parts, "--parts N", options->parts, "files",
            whole_number(1, 1 << 16))
    ->required();
  command->footer(checkpoint_help);
}

}  // namespace troupe::cli
