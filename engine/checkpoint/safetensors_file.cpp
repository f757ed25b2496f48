#include "troupe/engine/checkpoint/safetensors_file.hpp"

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>

#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/sha256.hpp"

namespace troupe {

namespace {

std::string bytes_of(const input_file& file, std::size_t first,
                     std::size_t count) {
  std::string bytes(count, '\0');
  file.copy(first, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace

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
  if (length > largest_safetensors_header || length > size - sizeof(length))
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

}  // namespace troupe
