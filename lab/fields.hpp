#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::lab {

/// A request's JSON. Throws `error` (invalid_argument) for what is none, more
/// than `most_bytes`, or nested by more than 16 levels.
nlohmann::json parse_request(std::string_view text, std::size_t most_bytes);

/// Reads the fields of a JSON object; a field that is missing keeps its value.
/// Throws `error` (invalid_argument) with the field and what it may be. Fields
/// that nobody reads are refused by `require_known`.
class fields {
 public:
  /// `path` comes before the names of fields in errors.
  explicit fields(const nlohmann::json& object, std::string path = {});

  void read(std::string_view name, std::int32_t& value, std::int32_t least,
            std::int32_t most);
  void read(std::string_view name, double& value, double least, double most);
  void read(std::string_view name, bool& value);
  void read(std::string_view name, std::string& value);
  void read(std::string_view name, std::vector<std::string>& values);
  /// An object; an empty one if it is missing.
  fields inner(std::string_view name);
  bool has(std::string_view name) const;
  void require_known() const;

 private:
  const nlohmann::json* find(std::string_view name);
  [[noreturn]] void refuse(std::string_view name,
                           std::string_view wanted) const;

  const nlohmann::json& object_;
  std::string path_;
  std::vector<std::string> known_;
};

}  // namespace troupe::lab
