#include "troupe/engine/models/companion_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <system_error>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr std::array names{"tokenizer.json",
                           "tokenizer_config.json",
                           "special_tokens_map.json",
                           "added_tokens.json",
                           "vocab.json",
                           "vocab.txt",
                           "vocab.bpe",
                           "encoder.json",
                           "merges.txt",
                           "tokenizer.model",
                           "tokenizer.model.v3",
                           "tiktoken.model",
                           "qwen.tiktoken",
                           "tekken.json",
                           "spiece.model",
                           "spm.model",
                           "source.spm",
                           "target.spm",
                           "bpe.model",
                           "bpe.codes",
                           "sentencepiece.model",
                           "dict.txt",
                           "normalizer.json",
                           "generation_config.json",
                           "sentencepiece.bpe.model",
                           "chat_template.jinja",
                           "chat_template.json",
                           "processor_config.json",
                           "preprocessor_config.json"};

/// In any case, and with anything behind.
constexpr std::array documents{"LICENSE", "LICENCE",    "NOTICE",
                               "COPYING", "README",     "USE_POLICY",
                               "USAGE",   "MODEL_CARD", "ACCEPTABLE_USE"};
constexpr std::array code{"modeling_", "configuration_", "tokenization_"};

constexpr auto template_folder = "additional_chat_templates";

std::string upper(std::string_view text) {
  std::string result(text);
  for (auto& c : result)
    c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return result;
}

bool is_template(std::string_view name) {
  return name.ends_with(".jinja") && !name.starts_with('.');
}

/// The file behind a descriptor, whatever links led to it.
fs::path real_path(const input_file& file) {
  std::error_code trouble;
  return fs::read_symlink(fmt::format("/proc/self/fd/{}", file.descriptor()),
                          trouble);
}

/// Hugging Face's cache has links in REPOSITORY/snapshots/REVISION to files in
/// REPOSITORY/blobs.
bool belongs_to(const fs::path& file, const fs::path& folder) {
  const auto inside = file.lexically_relative(folder);
  if (!inside.empty() && *inside.begin() != "..")
    return true;
  const auto snapshots = folder.parent_path();
  return snapshots.filename() == "snapshots"
         && file.parent_path() == snapshots.parent_path() / "blobs";
}

input_file open_companion(const fs::path& folder, const fs::path& inner) {
  input_file file((folder / inner).string());
  const auto real = real_path(file);
  if (!belongs_to(real, fs::canonical(folder)))
    file.refuse(
      fmt::format("is a link out of the model's folder, to {}; a saved model "
                  "takes over files of the folder alone: copy it there, or "
                  "remove the link",
                  printable(real.string(), 1024)));
  return file;
}

}  // namespace

bool is_companion(std::string_view name) {
  const auto begins = [&](std::string_view with) {
    return upper(name).starts_with(with);
  };
  return std::ranges::find(names, name) != names.end()
         || std::ranges::any_of(documents, begins)
         || (name.ends_with(".py")
             && std::ranges::any_of(code, [&](std::string_view with) {
                  return name.starts_with(with);
                }));
}

std::vector<fs::path> companions_in(const fs::path& folder) {
  std::vector<fs::path> found;
  const auto add_files = [&](const fs::path& inner, auto is_wanted) {
    std::error_code trouble, unknown;
    for (fs::directory_iterator at(folder / inner, trouble), end;
         !trouble && at != end; at.increment(trouble)) {
      const auto name = at->path().filename();
      if (is_wanted(name.string()) && at->is_regular_file(unknown))
        found.push_back(inner / name);
    }
    if (trouble)
      fail_io(printable((folder / inner).string()), "read", trouble.message());
  };
  add_files("", is_companion);
  std::error_code unknown;
  if (fs::is_directory(folder / template_folder, unknown))
    add_files(template_folder, is_template);
  return found;
}

void require_copyable(const fs::path& folder) {
  for (const auto& file : companions_in(folder))
    open_companion(folder, file);
}

void copy_companions(const fs::path& from, const fs::path& to) {
  for (const auto& each : companions_in(from)) {
    auto file = open_companion(from, each);
    make_folder((to / each).parent_path().string());
    write_file_atomically((to / each).string(), file.read());
  }
}

}  // namespace troupe
