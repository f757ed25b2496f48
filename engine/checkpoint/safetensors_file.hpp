#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "troupe/base/input_file.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// A file whose tensors are read one by one. Several threads may read it.
class safetensors_file {
 public:
  /// Checks the header before anything is allocated: its length, JSON form,
  /// dtypes, shapes, offsets (no holes, no overlap, no overflow) and the file's
  /// exact size. Throws `io` or `invalid_checkpoint`.
  explicit safetensors_file(const std::string& path);

  const std::string& path() const { return file_.path(); }
  /// In the order of their data.
  const std::vector<safetensors_entry>& entries() const {
    return header_.entries;
  }
  const std::map<std::string, std::string>& metadata() const {
    return header_.metadata;
  }
  /// A copy of the tensor of one of the entries. Throws `io` if the file was
  /// shortened meanwhile.
  at::Tensor read(const safetensors_entry& entry) const;
  /// A digest of the whole file, read in pieces. Throws as `read`.
  std::string digest() const;

 private:
  input_file file_;
  std::size_t data_begin_ = 0;
  safetensors_header header_;
};

/// The tensors of several files, found by name, whichever file holds them.
/// Several threads may read them.
class safetensors_files {
 public:
  /// Throws as `safetensors_file`, and `invalid_checkpoint` for a tensor that
  /// is in another file, too.
  void add(const std::string& path);

  const std::vector<std::unique_ptr<safetensors_file>>& all() const {
    return files_;
  }
  /// The entries of all files, in the order of the files and of their data.
  std::vector<safetensors_entry> entries() const;
  /// Null: there is none.
  const safetensors_entry* find(const std::string& name) const;
  /// The file of a tensor that there is; a copy of it.
  const std::string& path_of(const std::string& name) const;
  at::Tensor read(const std::string& name) const;
  /// Reads both in pieces of 16 MiB. Throws as `read`.
  bool same_bytes(const std::string& name, const std::string& other) const;

 private:
  struct place {
    const safetensors_file* file = nullptr;
    const safetensors_entry* entry = nullptr;
  };

  std::vector<std::unique_ptr<safetensors_file>> files_;
  std::map<std::string, place> places_;
};

}  // namespace troupe
