#include "troupe/training/resume.hpp"

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

#include "troupe/base/fail.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/models/model_texts.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/training/shared_folder.hpp"

namespace troupe {

namespace {

constexpr auto rows_setting = "microbatch-size";

void warn_of_skipped(const std::string& sentence) {
  spdlog::warn("skipping a checkpoint: {}", sentence);
}

/// A checkpoint, or the last one of a folder.
std::string named_checkpoint(const std::string& path,
                             const checkpoint_words& words) {
  if (is_checkpoint(path)) {
    stored_checkpoint(path).verify();
    return path;
  }
  std::error_code trouble;
  if (!std::filesystem::exists(path, trouble) && !trouble)
    fail(error_code::io,
         "{} {}: there is no such folder; give a checkpoint, a run's folder of "
         "checkpoints, or auto for this run's own",
         words.resume, printable(path));
  const checkpoint_folder folder(path);
  if (auto last = folder.last_valid(warn_of_skipped))
    return *last;
  fail(error_code::invalid_checkpoint,
       "{} {}: is not a checkpoint, and holds no intact one that is finite",
       words.resume, printable(path));
}

/// The last intact, finite checkpoint of the run's own folder; later ones are
/// renamed. None if the folder has none at all.
std::optional<std::string> last_of(const checkpoint_folder& folder,
                                   const checkpoint_words& words) {
  const auto last = folder.last_valid(warn_of_skipped);
  if (last)
    folder.set_aside_after(*step_of_folder(*last));
  else if (!folder.steps().empty())
    fail(error_code::invalid_checkpoint,
         "{}: no checkpoint in {} is both intact and finite; move them away "
         "to train from the beginning, or name one to resume",
         words.resume, printable(folder.path()));
  return last;
}

/// Checkpoints of a run that goes on from `path` would mix with those of
/// another run, and with later ones of its own.
void require_unmixed(const std::string& path, const checkpoint_folder& folder,
                     const checkpoint_words& words) {
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
         "{} {}: is not in {} {}, which already holds a checkpoint of step {}: "
         "the two runs would mix; continue that one with {} auto, or give an "
         "empty folder to {}",
         words.resume, printable(path), words.folder, printable(folder.path()),
         all.front(), words.resume, words.folder);
  if (all.front() > *step)
    fail(error_code::invalid_argument,
         "{} {}: {} also holds a checkpoint of step {}, which would mix with "
         "those of this run; give another folder to {}, or move the later ones "
         "away",
         words.resume, printable(path), printable(folder.path()), all.front(),
         words.folder);
}

/// The checkpoint that is meant, in the process that leads: none to begin anew.
/// Throws `io` and `invalid_checkpoint`; invalid_argument if the run's folder
/// holds some already and the last of them is not meant.
std::optional<std::string> checkpoint_to_resume(const resume_options& options) {
  const checkpoint_folder folder(options.folder);
  std::error_code trouble;
  const bool is_own =
    options.from == "auto"
    || std::filesystem::equivalent(options.from, options.folder, trouble);
  if (!options.from.empty() && !is_own) {
    auto path = named_checkpoint(options.from, options.words);
    if (!options.folder.empty())
      require_unmixed(path, folder, options.words);
    return path;
  }
  if (options.folder.empty())
    return std::nullopt;
  if (is_own)
    return last_of(folder, options.words);
  if (const auto steps = folder.steps(); !steps.empty())
    fail(error_code::invalid_argument,
         "{} {} holds a checkpoint of step {}; continue from it with {} auto, "
         "or give another folder",
         options.words.folder, printable(options.folder), steps.front(),
         options.words.resume);
  return std::nullopt;
}

void require_same_config(const std::string& then, const std::string& now,
                         const std::string& origin, const std::string& model) {
  const auto fields = differing_fields(then, now, origin);
  if (!fields.empty())
    fail(error_code::invalid_argument,
         "{}: was saved with a config.json that differs from that of {} in {}",
         origin, model, printable(fmt::format("{}", fmt::join(fields, ", "))));
}

/// Settings that the parameters alone do not tell apart.
void require_same_model(const stored_checkpoint& from, const manifest& own,
                        const checkpoint_words& words) {
  const auto require = [&](const std::string& what, const std::string& then,
                           const std::string& now) {
    if (then != now)
      fail(error_code::invalid_argument,
           "{}: was saved with {}{} {}, and this run has {}", from.folder(),
           words.prefix, what, printable(then), now);
  };
  const auto& texts = from.about().model;
  for (const auto& [name, now] : own.model)
    if (const auto then = texts.find(name);
        then == texts.end() || name == "seq" || name == ends_text)
      continue;
    else if (name == "config.json")
      require_same_config(then->second, now, from.folder(),
                          words.prefix + "model");
    else if (name == base_text && then->second != now)
      fail(error_code::invalid_argument,
           "{}: its adapters were trained on other files of weights than those "
           "of {}; give the folder that they were trained on",
           from.folder(), printable(words.model));
    else
      require(name, then->second, now);
  if (const auto rank = texts.find("lora-rank");
      rank != texts.end() && !own.model.empty()
      && !own.model.contains(rank->first))
    fail(error_code::invalid_argument,
         "{}: was saved with {}lora-rank {}; give it again", from.folder(),
         words.prefix, printable(rank->second));
  const auto& settings = from.about().settings;
  const auto then = settings.find(optimizer_setting);
  const auto now = own.settings.find(optimizer_setting);
  if (then != settings.end() && now != own.settings.end())
    require(optimizer_setting, then->second, now->second);
}

/// The settings by which two runs read other data, in words.
std::string differing_data(const setting_texts& then, const setting_texts& now,
                           const std::string& prefix) {
  std::set<std::string> names;
  for (const auto& [one, other] : {std::pair(&then, &now), {&now, &then}})
    for (const auto& [name, value] : *one)
      if (const auto match = other->find(name);
          match == other->end() || match->second != value)
        names.insert(name);
  if (names.contains("text"))
    names.erase("tokens");  // follow from the text, as a rule
  std::string text;
  for (const auto& name : names)
    text += fmt::format("{}{}", text.empty() ? "" : ", ",
                        name != "tokens" ? prefix + name
                        : prefix.empty() ? name
                                         : "--validation-fraction or --mix");
  return text;
}

}  // namespace

std::string shared_text(const std::shared_ptr<mesh>& job, std::string text) {
  return job ? job->share({frame_type::mail, std::move(text)}).head : text;
}

bool leads_job(const std::shared_ptr<mesh>& job) {
  return !job || job->place().leads();
}

std::int64_t position_after(const manifest& about, const setting_texts& data,
                            const checkpoint_words& words) {
  auto then = about.settings, now = data;
  then.erase(optimizer_setting);
  now.erase(optimizer_setting);
  if (then.empty() && now.empty())  // of a program that does not tell
    return about.progress.microbatches;
  const auto rows_of = [](std::map<std::string, std::string>& settings) {
    const auto text = settings.extract(rows_setting);
    if (text.empty())
      return std::int64_t{0};
    const auto rows = parse_number<std::int32_t>(text.mapped());
    if (rows.value_or(0) < 1)  // its SHA-256 does not tell who wrote it
      fail(error_code::invalid_checkpoint,
           "the checkpoint's manifest: settings.{} is '{}', which is not a "
           "whole number above 0; was it edited?",
           rows_setting, printable(text.mapped()));
    return std::int64_t{*rows};
  };
  const auto rows_then = rows_of(then), rows_now = rows_of(now);
  std::int64_t rows = 0;
  const bool counted =
    !__builtin_mul_overflow(rows_then, about.progress.microbatches, &rows);
  const bool continues = then == now && counted && rows_now > 0;
  if (continues && rows % rows_now != 0)
    fail(error_code::invalid_argument,
         "{}{} {}: the checkpoint was saved after {} rows, which {} does not "
         "divide; use {}, as the run that saved it",
         words.prefix, rows_setting, rows_now, rows, rows_now, rows_then);
  if (continues)
    return rows / rows_now;
  if (!about.settings.empty())
    spdlog::warn(
      "the checkpoint is from a run on other data (it had another {}): reading "
      "the data from its start",
      differing_data(then, now, words.prefix));
  return 0;
}

namespace {

std::unique_ptr<folder_lock> lock_and_prepare(const std::string& folder) {
  auto lock = std::make_unique<folder_lock>(folder);
  if (!lock->problem().empty())
    spdlog::warn("{}; no other job may use the folder", lock->problem());
  if (const auto problem = checkpoint_folder(folder).prepare();
      !problem.empty())
    spdlog::warn("a file of an earlier run remains: {}", problem);
  return lock;
}

}  // namespace

std::unique_ptr<folder_lock> lock_checkpoints(const std::string& folder,
                                              const std::shared_ptr<mesh>& job,
                                              const checkpoint_words& words) {
  if (folder.empty())
    return nullptr;
  auto lock = leads_job(job) ? lock_and_prepare(folder) : nullptr;
  require_shared_folder(folder, job, words);
  return lock;
}

namespace {

/// Restores the checkpoint; an error tells if its rows were of another length,
/// on which the parameters of some models depend.
void restore_from(
  const stored_checkpoint& from, const manifest& own,
  const checkpoint_words& words,
  const std::function<void(const stored_checkpoint&)>& restore) {
  try {
    restore(from);
  } catch (const error& reason) {
    const auto then = from.about().model.find("seq");
    const auto now = own.model.find("seq");
    if (then == from.about().model.end() || now == own.model.end()
        || then->second == now->second)
      throw;
    fail(reason.code(), "{} (it was saved with {}seq {})", reason.what(),
         words.prefix, printable(then->second));
  }
}

void tell_of(const stored_checkpoint& from, const resume_options& options,
             const manifest& own, const learning_rates& rates) {
  const auto step = from.about().progress.step;
  spdlog::info("resuming from {}, step {}", printable(from.folder()), step);
  tell_of_other_settings(from.about(), own.flags, rates, options.words.prefix);
  if (const auto name = from.about().not_finite(); !name.empty())
    spdlog::warn(
      "the checkpoint is not finite: '{}' holds a NaN or an infinity",
      printable(name));
  if (options.steps > 0 && step >= options.steps)
    spdlog::warn(
      "nothing to train: the checkpoint is of step {}, and {}steps is {}", step,
      options.words.prefix, options.steps);
}

}  // namespace

resumed_run resume(
  const resume_options& options, const saved_run& run,
  const learning_rates& rates,
  const std::function<void(const stored_checkpoint&)>& restore) {
  const auto& job = run.job;
  std::string path;
  if (leads_job(job))
    path = checkpoint_to_resume(options).value_or("");
  path = shared_text(job, std::move(path));
  if (path.empty())
    return {shared_text(job, new_run_name())};
  require_same_checkpoint(path, job, options.words);
  const stored_checkpoint from(path);
  require_same_model(from, run.about, options.words);
  restore_from(from, run.about, options.words, restore);
  if (leads_job(job))
    tell_of(from, options, run.about, rates);
  const auto step = from.about().progress.step;
  std::error_code trouble;
  const bool is_here =
    leads_job(job) && !options.folder.empty()
    && std::filesystem::equivalent(
      path, checkpoint_folder(options.folder).path_of(step), trouble);
  const bool is_saved = !shared_text(job, is_here ? "1" : "").empty();
  return {from.about().run, is_saved ? step : -1};
}

}  // namespace troupe
