#include "troupe/engine/checkpoint/checkpoint_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <thread>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/folder_moves.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

std::string name_of(std::int64_t step) {
  return fmt::format("{}{:08}", prefix, step);
}

std::optional<std::int64_t> step_of(const std::string& name) {
  if (!name.starts_with(prefix))
    return std::nullopt;
  const auto step = parse_number<std::int64_t>(name.substr(prefix.size()));
  return step && *step >= 0 && name_of(*step) == name ? step : std::nullopt;
}

// The step of a hidden folder, such as ".step-00000120.replaced".
std::optional<std::int64_t> step_of_hidden(const std::string& name) {
  return name.starts_with('.') ? step_of(name.substr(1, name.find('.', 1) - 1))
                               : std::nullopt;
}

std::string part_name(std::int32_t part) {
  return fmt::format("part-{:05}.safetensors", part);
}

std::vector<fs::directory_entry> entries_of(const std::string& folder) {
  std::error_code trouble;
  std::vector<fs::directory_entry> found;
  for (fs::directory_iterator at(folder, trouble), end; !trouble && at != end;
       at.increment(trouble))
    found.push_back(*at);
  if (trouble)
    fail_io(folder, "read", trouble.message());
  return found;
}

void synchronise(const std::string& folder) {
  if (!synchronise_folder(folder))
    fail_io(folder, "synchronised", std::strerror(errno));
}

/// What failed first of several pieces of work that don't need each other.
struct first_problem {
  void attempt(const auto& work) {
    try {
      work();
    } catch (const error& reason) {
      if (text.empty())
        text = reason.what();
    }
  }
  std::string text{};
};

/// A part's size and sum: written beside it, once it is complete.
std::string receipt_path(const std::string& folder, std::int32_t part) {
  return (fs::path(folder) / (part_name(part) + ".written")).string();
}

std::optional<checkpoint_file> receipt(const std::string& folder,
                                       std::int32_t part) {
  const auto path = receipt_path(folder, part);
  std::error_code trouble;
  if (!fs::exists(path, trouble))
    return std::nullopt;  // not yet
  std::string text;
  try {
    text = read_file(path);
  } catch (const error&) {
    if (fs::exists(path, trouble))
      throw;
    return std::nullopt;  // discarded meanwhile
  }
  const auto sum = text.find(' '), name = text.find(' ', sum + 1);
  const auto bytes = parse_number<std::uint64_t>(text.substr(0, sum));
  if (name == std::string::npos || !bytes)
    fail(error_code::io, "{}: another program has written to it", path);
  return checkpoint_file{part_name(part), *bytes,
                         text.substr(sum + 1, name - sum - 1),
                         text.substr(name + 1)};
}

/// Empty for a checkpoint that can't be read: `last_valid` tells of it.
std::string not_finite_in(const std::string& path) {
  try {
    const auto about = (fs::path(path) / manifest_name).string();
    return parse_manifest(read_file(about), about).not_finite();
  } catch (const error&) {
    return {};
  }
}

void require_not_discarded(const std::string& folder, bool discarded) {
  if (discarded)
    fail(error_code::io,
         "{}: another process could not write its part, and discarded the "
         "checkpoint",
         folder);
}

void require_part(const std::string& folder, const checkpoint_file& part) {
  std::error_code trouble;
  const auto path = (fs::path(folder) / part.name).string();
  if (const auto bytes = fs::file_size(path, trouble);
      trouble || bytes != part.bytes)
    fail(error_code::io, "{}: has vanished, or another program has changed it",
         path);
}

checkpoint_file wait_for_part(const std::string& folder,
                              const std::string& discarded, std::int32_t part,
                              const std::function<bool()>& give_up) {
  for (auto pause = std::chrono::milliseconds(1);;
       pause = std::min(2 * pause, std::chrono::milliseconds(100))) {
    if (auto found = receipt(folder, part))
      return *found;
    std::error_code trouble;
    require_not_discarded(folder, fs::exists(discarded, trouble));
    if (!fs::exists(folder, trouble))
      fail(error_code::io, "{}: has vanished; was it moved or removed?",
           folder);
    if (give_up && give_up())
      fail(error_code::interrupted,
           "{}: part {} was not written; no checkpoint is made", folder, part);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

std::optional<std::int64_t> step_of_folder(const std::string& path) {
  const fs::path folder(path);
  return step_of(
    (folder.has_filename() ? folder : folder.parent_path()).filename());
}

std::string checkpoint_folder::path_of(std::int64_t step) const {
  return (fs::path(path_) / name_of(step)).string();
}

std::string checkpoint_folder::hidden(std::int64_t step,
                                      const char* what) const {
  return (fs::path(path_) / fmt::format(".{}.{}", name_of(step), what))
    .string();
}

std::string checkpoint_folder::partial(std::int64_t step) const {
  return hidden(step, (attempt_ + ".partial").c_str());
}

std::string checkpoint_folder::discarded(std::int64_t step) const {
  return hidden(step, (attempt_ + ".discarded").c_str());
}

std::string checkpoint_folder::prepare() const {
  require_writable_folder(path_);
  first_problem problem;
  for (const auto& entry : entries_of(path_))
    if (const auto name = entry.path().filename().string();
        name.starts_with(fmt::format(".{}", prefix)) && !put_back(name))
      problem.attempt([&] { remove_path(entry.path().string()); });
  return problem.text;
}

// A process may have been killed between the two renames that replace a
// checkpoint, or as it removed what it could only copy.
bool checkpoint_folder::put_back(const std::string& name) const {
  const auto step = step_of_hidden(name);
  if (!step || !name.ends_with(".replaced") || is_checkpoint(path_of(*step)))
    return false;
  remove_path(path_of(*step));
  move_checkpoint((fs::path(path_) / name).string(), path_of(*step));
  return true;
}

std::vector<std::int64_t> checkpoint_folder::steps() const {
  std::vector<std::int64_t> found;
  std::error_code trouble;
  if (const auto kind = fs::status(path_, trouble).type();
      kind != fs::file_type::directory && kind != fs::file_type::none)
    return found;
  for (const auto& entry : entries_of(path_))
    if (const auto step = step_of(entry.path().filename().string());
        step && entry.is_directory(trouble))
      found.push_back(*step);
  std::ranges::sort(found, std::ranges::greater{});
  return found;
}

void checkpoint_folder::begin(std::int64_t step) const {
  make_folder(partial(step));
}

void checkpoint_folder::write_part(std::int64_t step, std::int32_t part,
                                   const parameter_list& tensors) const {
  const auto folder = partial(step);
  std::error_code trouble;
  require_not_discarded(folder, fs::exists(discarded(step), trouble));
  begin(step);
  const auto written =
    write_safetensors((fs::path(folder) / part_name(part)).string(), tensors);
  write_file_atomically(receipt_path(folder, part),
                        fmt::format("{} {} {}", written.bytes, written.sha256,
                                    first_not_finite(tensors)));
}

std::string checkpoint_folder::complete(
  manifest what, std::int32_t parts, const kept_checkpoints& kept,
  const std::function<bool()>& give_up) const {
  const auto step = what.progress.step;
  const auto folder = partial(step);
  what.files.clear();
  for (std::int32_t part = 0; part < parts; ++part)
    what.files.push_back(wait_for_part(folder, discarded(step), part, give_up));
  for (std::int32_t part = 0; part < parts; ++part)
    remove_path(receipt_path(folder, part));
  write_file_atomically((fs::path(folder) / manifest_name).string(),
                        to_json(what));
  for (const auto& part : what.files)
    require_part(folder, part);
  put_in_place(step);
  first_problem problem;
  problem.attempt([&] { synchronise(path_); });
  // A crash may still undo the renames: the older checkpoints remain.
  return problem.text.empty() ? clean_up(step, kept) : problem.text;
}

std::string checkpoint_folder::clean_up(std::int64_t step,
                                        const kept_checkpoints& kept) const {
  first_problem problem;
  problem.attempt([&] { remove_path(hidden(step, "replaced")); });
  problem.attempt([&] {
    for (const auto& path : abandoned(step))
      problem.attempt([&] { remove_path(path); });
  });
  problem.attempt([&] {
    for (const auto old : outlived(kept))
      problem.attempt([&] { remove(old); });
  });
  return problem.text;
}

void checkpoint_folder::put_in_place(std::int64_t step) const {
  const auto path = path_of(step), replaced = hidden(step, "replaced");
  std::error_code trouble;
  const bool exists = fs::exists(path, trouble);
  if (exists && !is_checkpoint(path))
    fail(error_code::io,
         "{}: exists and is not a checkpoint; move it away, or give another "
         "folder",
         path);
  if (exists) {
    remove_path(replaced);
    move_checkpoint(path, replaced);
  }
  fs::rename(partial(step), path, trouble);
  if (!trouble)
    return;
  if (std::error_code again; exists)
    fs::rename(replaced, path, again);
  fail_io(partial(step), "renamed", trouble.message());
}

// All processes are beyond the steps before: parts that one wrote after the
// others had given up the checkpoint, and those of processes that an earlier
// attempt has left running.
std::vector<std::string> checkpoint_folder::abandoned(std::int64_t step) const {
  std::vector<std::string> left;
  for (const auto& entry : entries_of(path_)) {
    const auto name = entry.path().filename().string();
    const auto of = step_of_hidden(name);
    const bool is_of_writers =
      name.ends_with(".partial") || name.ends_with(".discarded");
    if (of && is_of_writers
        && (*of < step
            || (entry.path() != partial(*of)
                && entry.path() != discarded(*of))))
      left.push_back(entry.path().string());
  }
  return left;
}

// A change of a folder makes the system forget what it knows of it.
void checkpoint_folder::look_again(std::int64_t step) const noexcept {
  const auto probe = fs::path(partial(step)) / ".probe";
  std::error_code trouble;
  fs::create_directory(probe, trouble);
  fs::remove(probe, trouble);
}

void checkpoint_folder::set_aside_after(std::int64_t step) const {
  for (const auto later : steps()) {
    if (later <= step)
      continue;
    const bool is_finite = not_finite_in(path_of(later)).empty();
    const auto usual =
      path_of(later) + (is_finite ? ".damaged" : ".not-finite");
    auto aside = usual;
    std::error_code trouble;
    if (!is_finite)  // a job that is restarted may diverge each time
      remove_path(aside);
    for (int n = 2; fs::exists(fs::symlink_status(aside, trouble)); ++n)
      aside = fmt::format("{}-{}", usual, n);
    move_checkpoint(path_of(later), aside);
  }
}

void checkpoint_folder::discard(std::int64_t step) const noexcept {
  std::error_code trouble;
  fs::remove_all(partial(step), trouble);
}

void checkpoint_folder::refuse(std::int64_t step) const noexcept {
  std::error_code trouble;
  fs::create_directory(discarded(step), trouble);
}

std::vector<std::int64_t> checkpoint_folder::outlived(
  const kept_checkpoints& kept) const {
  auto all = steps();
  // Another program's folder may have such a name.
  std::erase_if(all, [&](auto step) { return !is_checkpoint(path_of(step)); });
  const auto is_finite = [this](std::int64_t step) {
    return not_finite_in(path_of(step)).empty();
  };
  const std::ptrdiff_t most = std::max(1, kept.last);
  const auto first = all.begin() + std::min(std::ssize(all), most);
  const bool keeps_finite = std::any_of(all.begin(), first, is_finite);
  all.erase(all.begin(), first);
  const auto last = std::ranges::find_if(all, is_finite);
  if (!keeps_finite && last != all.end())
    all.erase(last);
  std::erase_if(
    all, [&](auto step) { return kept.every != 0 && step % kept.every == 0; });
  return all;
}

void checkpoint_folder::remove(std::int64_t step) const {
  remove_checkpoint(path_of(step), hidden(step, "removed"));
}

std::optional<std::string> checkpoint_folder::last_valid(
  const std::function<void(const std::string&)>& refused) const {
  for (const auto step : steps()) {
    try {
      const stored_checkpoint found(path_of(step));
      found.verify();
      if (const auto name = found.about().not_finite(); !name.empty())
        refuse_checkpoint(found.folder(),
                          fmt::format("is intact, but '{}' holds a NaN or an "
                                      "infinity",
                                      printable(name)));
      return found.folder();
    } catch (const error& reason) {
      if (reason.code() != error_code::invalid_checkpoint)
        throw;
      refused(reason.what());
    }
  }
  return std::nullopt;
}

}  // namespace troupe
