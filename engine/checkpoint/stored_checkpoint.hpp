#pragma once

#include <string>
#include <vector>

#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"

namespace troupe {

/// A complete checkpoint, opened for reading: its tensors are found by name,
/// whichever file holds them. Several threads may read it.
class stored_checkpoint {
 public:
  /// Reads the manifest and the files' headers. Throws `io` for a file that
  /// can't be read, `mismatch` for another format and, naming the file,
  /// `invalid_checkpoint` for a file that is missing, of another size or
  /// damaged, and for a tensor that is there twice.
  explicit stored_checkpoint(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const manifest& about() const { return about_; }

  /// All names, file by file in the order of the manifest.
  std::vector<std::string> names() const;
  /// The tensor's entry in a file's header; null: there is none. An alias
  /// gives the entry of the tensor it shares.
  const safetensors_entry* find(const std::string& name) const;
  /// A copy. Throws `invalid_checkpoint` if there is none of this name.
  at::Tensor read(const std::string& name) const;

  /// Compares all files with their sums in the manifest. Throws
  /// `invalid_checkpoint` naming the first that differs.
  void verify() const;

 private:
  const std::string& stored_name(const std::string& name) const;

  std::string folder_;
  manifest about_;
  safetensors_files files_;
};

/// Whether a folder is a checkpoint: it has a manifest.
bool is_checkpoint(const std::string& folder);

}  // namespace troupe
