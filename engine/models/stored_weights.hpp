#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/engine/checkpoint/safetensors.hpp"

namespace troupe {

/// The weights of a folder as Hugging Face's transformers writes it:
/// model.safetensors, or model.safetensors.index.json and the parts that it
/// names. Tensors are read one by one; several threads may read.
class stored_weights {
 public:
  /// Reads the headers. Throws `io` and `invalid_checkpoint`, naming the file:
  /// a part that is missing or broken, a tensor that is in two parts or not in
  /// the part that the index says.
  explicit stored_weights(const std::string& folder);

  /// The index, or the only file, for errors.
  const std::string& origin() const { return origin_; }
  const std::vector<std::string>& paths() const { return paths_; }
  /// In the order of the files, and of each file's data.
  std::vector<safetensors_entry> entries() const;
  /// Null: there is none.
  const safetensors_entry* find(const std::string& name) const;
  /// The file of a tensor that there is.
  const std::string& path_of(const std::string& name) const;
  /// A copy. Throws `io` if the file was shortened meanwhile.
  at::Tensor read(const std::string& name) const;
  /// Reads both in pieces of 16 MiB. Throws as `read`.
  bool same_bytes(const std::string& name, const std::string& other) const;

 private:
  struct place {
    std::size_t file = 0;
    const safetensors_entry* entry = nullptr;
  };
  void add(const std::string& path);

  std::string origin_;
  std::vector<std::unique_ptr<safetensors_file>> files_;
  std::vector<std::string> paths_;
  std::map<std::string, place> places_;
};

}  // namespace troupe
