#include "troupe/engine/checkpoint/stored_checkpoint.hpp"

#include <fmt/format.h>

#include <filesystem>

#include "troupe/base/fail.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/checkpoint_folder.hpp"

namespace troupe {

namespace {

std::string in(const std::string& folder, std::string_view name) {
  return (std::filesystem::path(folder) / name).string();
}

manifest read_manifest(const std::string& folder) {
  const auto path = in(folder, manifest_name);
  std::error_code trouble;
  if (!std::filesystem::exists(path, trouble) && !trouble)
    refuse_checkpoint(path, "is missing");
  constexpr std::size_t most = std::size_t{64} << 20;
  input_file file(path);
  if (file.size() > most)
    refuse_checkpoint(path, fmt::format("has more than {} bytes", most));
  return parse_manifest(file.read(most), path);
}

void require_size(const std::string& path, const checkpoint_file& file) {
  std::error_code trouble;
  const auto bytes = std::filesystem::file_size(path, trouble);
  if (trouble == std::errc::permission_denied || trouble == std::errc::io_error)
    fail(error_code::io, "{}: can't be read: {}", printable(path),
         trouble.message());
  if (trouble)
    refuse_checkpoint(path, trouble == std::errc::no_such_file_or_directory
                              ? "is missing"
                              : "is not a readable file: " + trouble.message());
  if (bytes != file.bytes)
    refuse_checkpoint(path, fmt::format("has {} bytes; the manifest says {}",
                                        bytes, file.bytes));
}

}  // namespace

stored_checkpoint::stored_checkpoint(const std::string& folder)
  : folder_(folder), about_(read_manifest(folder)) {
  if (const auto step = step_of_folder(folder);
      step && *step != about_.progress.step)
    refuse_checkpoint(
      in(folder, manifest_name),
      fmt::format("is of step {}, but its folder is named for step {}",
                  about_.progress.step, *step));
  for (const auto& file : about_.files) {
    require_size(in(folder, file.name), file);
    files_.add(in(folder, file.name));
  }
  for (const auto& [alias, owner] : about_.aliases)
    if (files_.find(alias) || !files_.find(owner))
      refuse_checkpoint(
        in(folder, manifest_name),
        fmt::format("'{}' can't be another name of '{}': one is stored, the "
                    "other isn't",
                    printable(alias), printable(owner)));
}

const std::string& stored_checkpoint::stored_name(
  const std::string& name) const {
  const auto alias = about_.aliases.find(name);
  return alias == about_.aliases.end() ? name : alias->second;
}

std::vector<std::string> stored_checkpoint::names() const {
  std::vector<std::string> all;
  for (const auto& entry : files_.entries())
    all.push_back(entry.name);
  return all;
}

const safetensors_entry* stored_checkpoint::find(
  const std::string& name) const {
  return files_.find(stored_name(name));
}

at::Tensor stored_checkpoint::read(const std::string& name) const {
  if (!find(name))
    refuse_checkpoint(folder_, fmt::format("lacks '{}'", printable(name)));
  return files_.read(stored_name(name));
}

void stored_checkpoint::verify() const {
  for (std::size_t i = 0; i < about_.files.size(); ++i)
    if (files_.all()[i]->digest() != about_.files[i].sha256)
      refuse_checkpoint(in(folder_, about_.files[i].name),
                        "is damaged: its SHA-256 does not match the manifest");
}

bool is_checkpoint(const std::string& folder) {
  std::error_code trouble;
  return std::filesystem::is_regular_file(in(folder, manifest_name), trouble);
}

}  // namespace troupe
