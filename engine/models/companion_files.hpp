#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace troupe {

/// Whether a saved model's folder takes a file of this name over: of a
/// tokenizer, of generation settings, of a model's own code, a licence or a
/// description.
bool is_companion(std::string_view name);

/// The paths within a model's folder of such files, templates in
/// additional_chat_templates among them; not of links to nowhere. Throws `io`.
std::vector<std::filesystem::path> companions_in(
  const std::filesystem::path& folder);

/// Throws `io` for one that can't be read, or is a link out of the folder: to
/// anything but a file in it, or in the `blobs` of the cache of Hugging Face's
/// that the folder is in.
void require_copyable(const std::filesystem::path& folder);

/// Copies them to another folder. Throws `io` as `require_copyable` does.
void copy_companions(const std::filesystem::path& from,
                     const std::filesystem::path& to);

}  // namespace troupe
