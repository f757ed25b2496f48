#include "troupe/engine/models/stored_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "troupe/base/error.hpp"
#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/models/decoders/model_config.hpp"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr auto single_name = "model.safetensors";
constexpr auto index_name = "model.safetensors.index.json";

/// The part of each tensor, by an index.
std::map<std::string, std::string> parts_of(const std::string& index) {
  const auto fields = parsed_object(read_file(index), index);
  const auto map = fields.find("weight_map");
  if (map == fields.end() || !map->is_object() || map->empty())
    refuse_checkpoint(index, "has no weight_map");
  std::map<std::string, std::string> parts;
  for (const auto& [name, part] : map->items()) {
    const auto file = part.is_string() ? part.get<std::string>() : "";
    if (file.empty() || file.front() == '.'
        || file.find_first_of(std::string_view("/\0", 2)) != file.npos)
      refuse_checkpoint(index, fmt::format("names '{}' as the part of {}",
                                           printable(file), printable(name)));
    parts.emplace(name, file);
  }
  return parts;
}

}  // namespace

stored_weights::stored_weights(const std::string& folder) : origin_(folder) {
  std::error_code trouble;
  const auto single = (fs::path(folder) / single_name).string();
  const auto index = (fs::path(folder) / index_name).string();
  if (fs::exists(single, trouble)) {
    origin_ = single;
    add(single);
    return;
  }
  if (!fs::exists(index, trouble))
    fail(error_code::io, "{}: has neither {} nor {}", printable(folder),
         single_name, index_name);
  origin_ = index;
  const auto parts = parts_of(index);
  std::set<std::string> names;
  for (const auto& [name, part] : parts)
    names.insert(part);
  for (const auto& part : names)
    add((fs::path(folder) / part).string());
  for (const auto& [name, part] : parts) {
    const auto found = places_.find(name);
    if (found == places_.end()
        || fs::path(paths_[found->second.file]).filename() != part)
      refuse_checkpoint(index, fmt::format("says that {} is in {}, which it is "
                                           "not",
                                           printable(name), printable(part)));
  }
}

void stored_weights::add(const std::string& path) {
  files_.push_back(std::make_unique<safetensors_file>(path));
  paths_.push_back(path);
  for (const auto& entry : files_.back()->entries())
    if (const auto [other, is_new] =
          places_.emplace(entry.name, place{files_.size() - 1, &entry});
        !is_new)
      refuse_checkpoint(path,
                        fmt::format("has {}, as {} does", printable(entry.name),
                                    paths_[other->second.file]));
}

std::vector<safetensors_entry> stored_weights::entries() const {
  std::vector<safetensors_entry> all;
  for (const auto& file : files_)
    all.insert(all.end(), file->entries().begin(), file->entries().end());
  return all;
}

const safetensors_entry* stored_weights::find(const std::string& name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.entry;
}

const std::string& stored_weights::path_of(const std::string& name) const {
  return paths_[places_.at(name).file];
}

at::Tensor stored_weights::read(const std::string& name) const {
  const auto& from = places_.at(name);
  return files_[from.file]->read(*from.entry);
}

bool stored_weights::same_bytes(const std::string& name,
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
      return files_[from.file]->read(piece);
    };
    if (!piece_of(a).equal(piece_of(b)))
      return false;
  }
  return true;
}

}  // namespace troupe
