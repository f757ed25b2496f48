#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "../../files.hpp"

namespace troupe::testing {

using ordered = nlohmann::ordered_json;

inline constexpr auto index_name = "model.safetensors.index.json";
inline constexpr auto single_name = "model.safetensors";

/// The effect of a damage: texts of which an error must contain at least one,
/// and whether the folder may still load as the same model.
struct damage {
  std::vector<std::string> named;
  bool harmless = false;
};

/// A folder to damage.
struct patient {
  std::string folder;
  std::mt19937& random;

  std::string path(const std::string& name) const {
    return (std::filesystem::path(folder) / name).string();
  }
  bool has_index() const { return std::filesystem::exists(path(index_name)); }
  std::size_t below(std::size_t count) const { return random() % count; }
  template <class Value>
  Value one_of(const std::vector<Value>& all) const {
    return all[below(all.size())];
  }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  ordered read(const std::string& name) const {
    return ordered::parse(content(path(name)));
  }
  /// The name of a file with weights.
  std::string weights() const {
    std::vector<std::string> all;
    for (const auto& each : std::filesystem::directory_iterator(folder))
      if (each.path().extension() == ".safetensors")
        all.push_back(each.path().filename());
    std::ranges::sort(all);
    return one_of(all);
  }
};

/// A file of weights as it is stored.
struct raw_weights {
  ordered header;
  std::string data;

  explicit raw_weights(const std::string& bytes) {
    std::uint64_t size = 0;
    std::memcpy(&size, bytes.data(), sizeof size);
    header = ordered::parse(bytes.substr(8, size));
    data = bytes.substr(8 + size);
  }
  static std::string packed(const std::string& text, const std::string& data) {
    const std::uint64_t size = text.size();
    return std::string(reinterpret_cast<const char*>(&size), 8) + text + data;
  }
  std::string bytes() const { return packed(header.dump(), data); }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& each : header.items())
      if (each.key() != "__metadata__")
        all.push_back(each.key());
    return all;
  }
};

using change = std::function<damage(const patient&)>;

/// Changes of files with weights, and of the texts beside them: the index and
/// the configuration.
const std::vector<change>& changes_of_weights();
const std::vector<change>& changes_of_texts();

}  // namespace troupe::testing
