#include "troupe/cli/train/train_checkpoints.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/cli/model/stored_model.hpp"
#include "troupe/cli/train/resumed_settings.hpp"
#include "troupe/cli/train/train_setup.hpp"
#include "troupe/engine/models/model_folder.hpp"

namespace troupe::cli {

namespace {

constexpr auto rows_setting = "microbatch-size";

void warn_of_skipped(const std::string& sentence) {
  spdlog::warn("skipping a checkpoint: {}", sentence);
}

/// A checkpoint, or the last one of a folder.
std::string named_checkpoint(const std::string& path) {
  if (is_checkpoint(path)) {
    stored_checkpoint(path).verify();
    return path;
  }
  const checkpoint_folder folder(path);
  if (auto found = folder.last_valid(warn_of_skipped))
    return *found;
  fail(error_code::invalid_checkpoint,
       "--resume {}: is not a checkpoint, and holds no intact one that is "
       "finite",
       printable(path));
}

/// The last intact, finite checkpoint of the run's own folder; later ones are
/// renamed. None if the folder has none at all.
std::optional<std::string> last_of(const checkpoint_folder& folder) {
  const auto found = folder.last_valid(warn_of_skipped);
  if (found)
    folder.set_aside_after(*step_of_folder(*found));
  else if (!folder.steps().empty())
    fail(error_code::invalid_checkpoint,
         "--resume: no checkpoint in {} is both intact and finite; move them "
         "away to train from the beginning, or name one to resume",
         printable(folder.path()));
  return found;
}

/// Checkpoints of a run that goes on from `path` would mix with those of
/// another run, and with later ones of its own.
void require_unmixed(const std::string& path, const checkpoint_folder& folder) {
  const auto all = folder.steps();
  if (all.empty())
    return;
  std::error_code trouble;
  const auto target = std::filesystem::canonical(path, trouble);  // no links
  const auto step = step_of_folder(target.string());
  const bool is_own = step
                      && std::filesystem::equivalent(target.parent_path(),
                                                     folder.path(), trouble);
  if (!is_own)
    fail(error_code::invalid_argument,
         "--resume {}: is not in --checkpoints {}, which already holds a "
         "checkpoint of step {}: the two runs would mix; continue that one "
         "with --resume auto, or give an empty folder to --checkpoints",
         printable(path), printable(folder.path()), all.front());
  if (all.front() > *step)
    fail(error_code::invalid_argument,
         "--resume {}: {} also holds a checkpoint of step {}, which would mix "
         "with those of this run; give another folder to --checkpoints, or "
         "move the later ones away",
         printable(path), printable(folder.path()), all.front());
}

/// The checkpoint that --resume means, in the process that leads: none to begin
/// anew. Throws `io` and `invalid_checkpoint`; invalid_argument if
/// --checkpoints holds some already and --resume does not mean the last of
/// them.
std::optional<std::string> checkpoint_to_resume(
  const checkpoint_options& options) {
  const checkpoint_folder folder(options.folder);
  std::error_code trouble;
  const bool is_own =
    options.resume == "auto"
    || std::filesystem::equivalent(options.resume, options.folder, trouble);
  if (!options.resume.empty() && !is_own) {
    auto path = named_checkpoint(options.resume);
    if (!options.folder.empty())
      require_unmixed(path, folder);
    return path;
  }
  if (options.folder.empty())
    return std::nullopt;
  if (is_own)
    return last_of(folder);
  if (const auto steps = folder.steps(); !steps.empty())
    fail(error_code::invalid_argument,
         "--checkpoints {} holds a checkpoint of step {}; continue from it "
         "with --resume auto, or give another folder",
         printable(options.folder), steps.front());
  return std::nullopt;
}

void require_same_config(const std::string& then, const std::string& now,
                         const std::string& origin) {
  const auto fields = differing_fields(then, now, origin);
  if (!fields.empty())
    fail(error_code::invalid_checkpoint,
         "{}: was saved with a config.json that differs from that of --model "
         "in {}",
         origin, printable(fmt::format("{}", fmt::join(fields, ", "))));
}

/// Settings that the parameters alone do not tell apart.
void require_same_model(const stored_checkpoint& from,
                        const train_options& options,
                        const train_setup& setup) {
  const auto require = [&](const std::string& what, const std::string& then,
                           const std::string& now) {
    if (then != now)
      fail(error_code::invalid_checkpoint,
           "{}: was saved with --{} {}, and this run has {}", from.folder(),
           what, printable(then), now);
  };
  const auto& texts = from.about().model;
  for (const auto& [name, now] : setup.model_texts)
    if (const auto then = texts.find(name);
        then == texts.end() || name == "seq" || name == ends_text)
      continue;
    else if (name == "config.json")
      require_same_config(then->second, now, from.folder());
    else if (name == base_text && then->second != now)
      fail(error_code::invalid_checkpoint,
           "{}: its adapters were trained on other files of weights than those "
           "of --model {}; give the folder that they were trained on",
           from.folder(), printable(options.model.name));
    else
      require(name, then->second, now);
  if (const auto rank = texts.find("lora-rank");
      rank != texts.end() && !setup.model_texts.contains(rank->first))
    fail(error_code::invalid_checkpoint,
         "{}: was saved with --lora-rank {}; give it again", from.folder(),
         printable(rank->second));
  const auto& settings = from.about().settings;
  if (const auto then = settings.find(optimizer_setting);
      then != settings.end())
    require(optimizer_setting, then->second,
            options.optimisation.optimizer.optimizer);
}

using text_map = std::map<std::string, std::string>;

/// In words: the flags by which two runs read other data.
std::string differing_data(const text_map& then, const text_map& now) {
  std::set<std::string> names;
  for (const auto& [one, other] : {std::pair(&then, &now), {&now, &then}})
    for (const auto& [name, value] : *one)
      if (const auto match = other->find(name);
          match == other->end() || match->second != value)
        names.insert(name);
  if (names.contains("text"))
    names.erase("tokens");  // follow from the text, as a rule
  std::string found;
  for (const auto& name : names)
    found += fmt::format(
      "{}{}", found.empty() ? "" : ", ",
      name == "tokens" ? "--validation-fraction or --mix" : "--" + name);
  return found;
}

}  // namespace

std::string shared(const std::shared_ptr<mesh>& job, std::string text) {
  return job ? job->share({frame_type::mail, std::move(text)}).head : text;
}

void require_checkpoints(const checkpoint_options& options) {
  const auto without = [&](bool given, const char* flag) {
    if (given && options.folder.empty())
      fail(error_code::invalid_argument,
           "{} has no effect without --checkpoints DIR", flag);
  };
  without(options.every > 0, "--checkpoint-every");
  without(options.resume == "auto", "--resume auto");
  without(options.kept.last != kept_checkpoints{}.last, "--keep");
  without(options.kept.every != kept_checkpoints{}.every, "--keep-every");
}

std::int64_t position_after(const manifest& about, const train_setup& setup) {
  auto then = about.settings, now = setup.data_settings;
  then.erase(optimizer_setting);
  const auto rows_of = [](std::map<std::string, std::string>& settings) {
    const auto found = settings.extract(rows_setting);
    if (found.empty())
      return std::int64_t{0};
    const auto rows = parse_number<std::int32_t>(found.mapped());
    if (rows.value_or(0) < 1)  // its SHA-256 does not tell who wrote it
      fail(error_code::invalid_checkpoint,
           "the checkpoint's manifest: settings.{} is '{}', which is not a "
           "whole number above 0; was it edited?",
           rows_setting, printable(found.mapped()));
    return std::int64_t{*rows};
  };
  const auto rows_then = rows_of(then), rows_now = rows_of(now);
  std::int64_t rows = 0;
  const bool counted =
    !__builtin_mul_overflow(rows_then, about.progress.microbatches, &rows);
  const bool continues = then == now && counted && rows_now > 0;
  if (continues && rows % rows_now != 0)
    fail(error_code::invalid_argument,
         "--microbatch-size {}: the checkpoint was saved after {} rows, which "
         "{} does not divide; use {}, as the run that saved it",
         rows_now, rows, rows_now, rows_then);
  if (continues)
    return rows / rows_now;
  if (!about.settings.empty())
    spdlog::warn(
      "the checkpoint is from a run on other data (it had another {}): reading "
      "the data from its start",
      differing_data(then, now));
  return 0;
}

std::unique_ptr<folder_lock> lock_checkpoints(const train_options& options,
                                              const train_setup& setup) {
  const auto& folder = options.checkpoints.folder;
  if (folder.empty() || !leads(setup.trainer.job))
    return nullptr;
  auto made = std::make_unique<folder_lock>(folder);
  if (!made->problem().empty())
    spdlog::warn("{}; no other job may use the folder", made->problem());
  if (const auto problem = checkpoint_folder(folder).prepare();
      !problem.empty())
    spdlog::warn("a file of an earlier run remains: {}", problem);
  return made;
}

resumed_run resume(
  const train_options& options, const train_setup& setup,
  const std::function<void(const stored_checkpoint&)>& restore) {
  const auto& job = setup.trainer.job;
  std::string path;
  if (leads(job))
    path = checkpoint_to_resume(options.checkpoints).value_or("");
  path = shared(job, std::move(path));
  if (path.empty())
    return {shared(job, new_run_name())};
  const stored_checkpoint from(path);
  require_same_model(from, options, setup);
  try {
    restore(from);
  } catch (const error& reason) {
    // The parameters of some models depend on it.
    const auto then = from.about().model.find("seq");
    if (then == from.about().model.end()
        || then->second == setup.model_texts.at("seq"))
      throw;
    fail(reason.code(), "{} (it was saved with --seq {})", reason.what(),
         printable(then->second));
  }
  const auto step = from.about().progress.step;
  if (leads(job)) {
    spdlog::info("resuming from {}, step {}", printable(path), step);
    tell_of_other_settings(from.about(), setup.flags,
                           rates_of(setup.trainer.numerics));
  }
  if (const auto name = from.about().not_finite(); leads(job) && !name.empty())
    spdlog::warn(
      "the checkpoint is not finite: '{}' holds a NaN or an infinity",
      printable(name));
  if (leads(job) && step >= options.steps)
    spdlog::warn(
      "nothing to train: the checkpoint is of step {}, and --steps "
      "is {}",
      step, options.steps);
  std::error_code trouble;
  const bool is_here =
    leads(job) && !options.checkpoints.folder.empty()
    && std::filesystem::equivalent(
      path, checkpoint_folder(options.checkpoints.folder).path_of(step),
      trouble);
  const bool is_saved = !shared(job, is_here ? "1" : "").empty();
  return {from.about().run, is_saved ? step : -1};
}

}  // namespace troupe::cli
