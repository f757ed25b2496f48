#include "troupe/engine/checkpoint/safetensors.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isinf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/error.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/checkpoint/sha256.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

constexpr std::uint64_t max_header_bytes = 100'000'000;

std::string header_of(const std::string& path, const parameter_list& tensors,
                      const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  // Its own functions look for a name among all others.
  auto& members = header.get_ref<json::object_t&>();
  members.reserve(tensors.size() + 1);
  std::unordered_set<std::string_view> names;
  if (!metadata.empty()) {
    members.emplace_back("__metadata__", metadata);
    names.insert("__metadata__");
  }
  std::uint64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const auto end = offset + tensor.nbytes();
    if (!names.insert(name).second)
      refuse_checkpoint(path, fmt::format("two tensors are named '{}'", name));
    members.emplace_back(
      name, json{{"dtype", safetensors_dtype(path, tensor.scalar_type())},
                 {"shape", tensor.sizes().vec()},
                 {"data_offsets", {offset, end}}});
    offset = end;
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > max_header_bytes)
    refuse_checkpoint(
      path, fmt::format("names and shapes of {} tensors need a header of {} "
                        "bytes; readers of safetensors accept at most {}",
                        tensors.size(), text.size(), max_header_bytes));
  return text;
}

/// Writes a file and sums it up.
class summed_file {
 public:
  explicit summed_file(const std::string& path) : file_(path) {}

  void write(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    file_.write({static_cast<const char*>(data), size});
    sum_.add({bytes, size});
    written_.bytes += size;
  }
  written_file commit() {
    file_.commit();
    written_.sha256 = sum_.digest();
    return written_;
  }

 private:
  atomic_file file_;
  sha256 sum_;
  written_file written_;
};

std::string bytes_of(const input_file& file, std::size_t first,
                     std::size_t count) {
  std::string bytes(count, '\0');
  file.copy(first, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

using named_tensors = std::unordered_map<std::string_view, const at::Tensor*>;

named_tensors by_name(const parameter_list& tensors) {
  named_tensors found;
  for (const auto& [name, tensor] : tensors)
    found.emplace(name, &tensor);
  return found;
}

/// Returns the values by their names.
named_tensors require_fit(const parameter_list& parameters,
                          const parameter_list& values,
                          const std::string& path) {
  auto named = by_name(values);
  for (const auto& [name, parameter] : parameters) {
    const auto found = named.find(name);
    if (found == named.end())
      refuse_checkpoint(path,
                        fmt::format("lacks '{}', which the model has", name));
    const auto* value = found->second;
    if (!is_loadable(value->scalar_type()))
      refuse_checkpoint(
        path, fmt::format("'{}' is {}, a dtype that no model is trained from; "
                          "convert it to F32, F16 or BF16",
                          printable(name), describe(*value)));
    if (value->is_floating_point() != parameter.is_floating_point()
        || value->is_complex() != parameter.is_complex())
      refuse_checkpoint(path,
                        fmt::format("'{}' is {}, the model's is {}", name,
                                    describe(*value), describe(parameter)));
    if (value->sizes() != parameter.sizes())
      refuse_checkpoint(
        path, fmt::format("'{}' is {}, the model's is {}; check --d-model, "
                          "--layers and --seq",
                          name, describe(*value), describe(parameter)));
    const auto dtype = parameter.scalar_type();
    if (overflows(*value, dtype))
      refuse_checkpoint(
        path,
        fmt::format("'{}' is {} with values beyond the range of {}, "
                    "which the model has",
                    printable(name), describe(*value), c10::toString(dtype)));
  }
  const auto expected = by_name(parameters);
  for (const auto& [name, value] : values)
    if (!expected.contains(name))
      refuse_checkpoint(path,
                        fmt::format("has '{}', which the model lacks", name));
  return named;
}

}  // namespace

written_file write_safetensors(
  const std::string& path, const parameter_list& tensors,
  const std::map<std::string, std::string>& metadata) {
  const auto header = header_of(path, tensors, metadata);
  const std::uint64_t length = header.size();
  summed_file file(path);
  file.write(&length, sizeof(length));
  file.write(header.data(), header.size());
  for (const auto& [name, tensor] : tensors) {
    const auto dense = tensor.detach().contiguous().cpu();
    file.write(dense.const_data_ptr(), dense.nbytes());
  }
  return file.commit();
}

safetensors_file::safetensors_file(const std::string& path) : file_(path) {
  const auto size = file_.size();
  std::uint64_t length = 0;
  if (size < sizeof(length))
    refuse_checkpoint(path, "is too short for a safetensors file");
  const auto begin = bytes_of(file_, 0, std::min<std::size_t>(size, 64));
  if (begin.starts_with("version ")
      && begin.find("git-lfs") != std::string::npos)
    refuse_checkpoint(path,
                      "is a pointer of Git LFS, not the file itself; run "
                      "'git lfs pull' where it was cloned");
  std::memcpy(&length, begin.data(), sizeof(length));
  if (length > max_header_bytes || length > size - sizeof(length))
    refuse_checkpoint(
      path, fmt::format("announces a header of {} bytes; the file has {}",
                        length, size));
  data_begin_ = sizeof(length) + length;
  header_ = parse_safetensors_header(
    path, bytes_of(file_, sizeof(length), length), size - data_begin_);
}

at::Tensor safetensors_file::read(const safetensors_entry& entry) const {
  file_.require_unchanged();
  auto tensor = at::empty(entry.shape, entry.dtype);
  file_.copy(data_begin_ + entry.begin,
             {static_cast<std::byte*>(tensor.mutable_data_ptr()),
              entry.end - entry.begin});
  return tensor;
}

std::string safetensors_file::digest() const {
  file_.require_unchanged();
  std::vector<std::byte> piece(std::min(file_.size(), std::size_t{1} << 20));
  sha256 sum;
  for (std::size_t first = 0; first < file_.size(); first += piece.size()) {
    piece.resize(std::min(piece.size(), file_.size() - first));
    file_.copy(first, piece);
    sum.add(piece);
  }
  return sum.digest();
}

void safetensors_files::add(const std::string& path) {
  files_.push_back(std::make_unique<safetensors_file>(path));
  for (const auto& entry : files_.back()->entries())
    if (const auto [other, is_new] =
          places_.emplace(entry.name, place{files_.back().get(), &entry});
        !is_new)
      refuse_checkpoint(
        path, fmt::format("has '{}', as {} does", printable(entry.name),
                          other->second.file->path()));
}

std::vector<safetensors_entry> safetensors_files::entries() const {
  std::vector<safetensors_entry> all;
  for (const auto& file : files_)
    all.insert(all.end(), file->entries().begin(), file->entries().end());
  return all;
}

const safetensors_entry* safetensors_files::find(
  const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.entry;
}

const std::string& safetensors_files::path_of(const std::string& name) const {
  return places_.at(name).file->path();
}

at::Tensor safetensors_files::read(const std::string& name) const {
  const auto& from = places_.at(name);
  return from.file->read(*from.entry);
}

bool safetensors_files::same_bytes(const std::string& name,
                                   const std::string& other) const {
  const auto &a = places_.at(name), &b = places_.at(other);
  const auto size = a.entry->end - a.entry->begin;
  if (size != b.entry->end - b.entry->begin)
    return false;
  constexpr std::uint64_t most = 16 << 20;
  for (std::uint64_t first = 0; first < size; first += most) {
    const auto count = std::min<std::uint64_t>(most, size - first);
    const auto piece_of = [&](const place& from) {
      auto piece = *from.entry;
      piece.dtype = at::kByte;
      piece.shape = {static_cast<std::int64_t>(count)};
      piece.begin += first;
      piece.end = piece.begin + count;
      return from.file->read(piece);
    };
    if (!piece_of(a).equal(piece_of(b)))
      return false;
  }
  return true;
}

parameter_list read_safetensors(const std::string& path) {
  const safetensors_file file(path);
  parameter_list tensors;
  for (const auto& entry : file.entries())
    tensors.emplace_back(entry.name, file.read(entry));
  return tensors;
}

bool overflows(const at::Tensor& value, at::ScalarType to) {
  const auto from = value.scalar_type();
  if (!value.is_floating_point() || c10::promoteTypes(from, to) == to)
    return false;
  return value.isfinite().logical_and_(value.to(to).isinf()).any().item<bool>();
}

void load_parameters(const parameter_list& parameters,
                     const parameter_list& values, const std::string& path) {
  const at::NoGradGuard no_grad;
  const auto fitting = require_fit(parameters, values, path);
  for (const auto& [name, parameter] : parameters) {
    auto target = parameter;
    target.copy_(*fitting.at(name));
  }
}

}  // namespace troupe
