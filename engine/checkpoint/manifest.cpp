#include "troupe/engine/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>

#include "troupe/base/json.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/checkpoint/sha256.hpp"

namespace troupe {

namespace {

using json = nlohmann::ordered_json;

constexpr auto format_prefix = "troupe checkpoint ";
constexpr auto format_name = "troupe checkpoint 1";
constexpr std::string_view state_prefix = "optimizer/";
/// Beyond, other programs round them.
constexpr auto largest_number = std::uint64_t{1} << 53;

using texts_by_name = std::map<std::string, std::string>;

/// Reads fields of an object, and refuses what is not as it should be.
class manifest_reader {
 public:
  manifest_reader(const json& object, const std::string& source)
    : object_(object), source_(source) {
    if (!object.is_object())
      refuse_checkpoint(source_, "has a value that must be a JSON object");
  }

  const json& field(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end())
      refuse_checkpoint(source_, fmt::format("lacks the field '{}'", name));
    return *found;
  }
  template <class T>
  T get(const char* name) const {
    if (auto value = json_as<T>(field(name)))
      return std::move(*value);
    refuse(name, "not " + json_kind<T>());
  }
  template <class Whole>
  Whole whole(const char* name) const {
    const auto value = json_as<std::uint64_t>(field(name));
    if (!value || *value > largest_number)
      refuse(name, "not a whole number in 0..2^53");
    return static_cast<Whole>(*value);
  }
  double positive(const char* name) const {
    const auto value = get<double>(name);
    if (!(value > 0))
      refuse(name, "not a number above 0");
    return value;
  }
  [[noreturn]] void refuse(const char* name, const std::string& what) const {
    refuse_checkpoint(source_, fmt::format("'{}' is {}", name, what));
  }

 private:
  const json& object_;
  const std::string& source_;
};

bool is_file_name(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.ends_with(".safetensors")
         && name.find_first_of("/\\") == std::string::npos
         && name.find('\0') == std::string::npos;
}

bool is_digest(const std::string& text) {
  return text.size() == 64
         && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Of the manifest itself, without this field.
constexpr auto digest_name = "sha256";

std::string digest_of(json fields) {
  fields.erase(digest_name);
  const auto text = json_text(fields);
  return sha256_of(std::as_bytes(std::span(text)));
}

void require_digest(const manifest_reader& fields, const json& parsed,
                    const std::string& source) {
  if (fields.get<std::string>(digest_name) != digest_of(parsed))
    refuse_checkpoint(source,
                      "is damaged: its own SHA-256 does not match its fields");
}

std::vector<checkpoint_file> files_of(const manifest_reader& fields,
                                      const std::string& source) {
  const auto& list = fields.field("files");
  if (!list.is_array())
    fields.refuse("files", "not a list");
  std::vector<checkpoint_file> files;
  std::set<std::string> names;
  for (const auto& each : list) {
    const manifest_reader of_file(each, source);
    files.push_back({of_file.get<std::string>("name"),
                     of_file.whole<std::uint64_t>("bytes"),
                     of_file.get<std::string>("sha256")});
    const auto& file = files.back();
    if (!is_file_name(file.name))
      refuse_checkpoint(
        source, fmt::format("'{}' is not the name of a file in the checkpoint",
                            printable(file.name)));
    if (!names.insert(file.name).second)
      refuse_checkpoint(
        source, fmt::format("names the file '{}' twice", printable(file.name)));
    if (!is_digest(file.sha256))
      of_file.refuse("sha256", "not a SHA-256");
  }
  return files;
}

}  // namespace

std::string to_json(const manifest& what) {
  auto files = json::array();
  for (const auto& file : what.files)
    files.push_back(
      {{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  json made{{"format", format_name},
            {"run", what.run},
            {"step", what.progress.step},
            {"microbatches", what.progress.microbatches},
            {"loss_scale", what.progress.loss_scale},
            {"good_steps", what.progress.good_steps},
            {"settings", json(what.settings)},
            {"model", json(what.model)},
            {"aliases", json(what.aliases)},
            {"files", files}};
  made[digest_name] = digest_of(made);
  return json_text(made, 2) + "\n";
}

manifest parse_manifest(std::string_view text, const std::string& source) {
  const auto parsed = parsed_json<json>(text, 4);
  if (parsed.is_discarded())
    refuse_checkpoint(source,
                      "is not the JSON of a checkpoint; is it damaged?");
  const manifest_reader fields(parsed, source);
  const auto format = fields.get<std::string>("format");
  if (format != format_name && format.starts_with(format_prefix))
    fail(error_code::mismatch,
         "{}: has the format '{}', and this program reads '{}'; use the "
         "version of troupe that wrote it",
         source, printable(format), format_name);
  if (format != format_name)
    refuse_checkpoint(source,
                      fmt::format("has the format '{}'; this program reads "
                                  "'{}'",
                                  printable(format), format_name));
  manifest read{
    .run = fields.get<std::string>("run"),
    .progress = {.step = fields.whole<std::int64_t>("step"),
                 .microbatches = fields.whole<std::int64_t>("microbatches"),
                 .loss_scale = fields.positive("loss_scale"),
                 .good_steps = fields.whole<std::int64_t>("good_steps")},
    .settings = fields.get<texts_by_name>("settings"),
    .model = fields.get<texts_by_name>("model"),
    .aliases = fields.get<texts_by_name>("aliases"),
    .files = files_of(fields, source)};
  require_digest(fields, parsed, source);
  return read;
}

std::string state_name(const std::string& tensor,
                       const std::string& parameter) {
  return fmt::format("{}{}/{}", state_prefix, tensor, parameter);
}

std::optional<state_name_parts> split_state_name(std::string_view name) {
  if (!name.starts_with(state_prefix))
    return std::nullopt;
  name.remove_prefix(state_prefix.size());
  const auto end = name.find('/');
  if (end == std::string_view::npos)
    return std::nullopt;
  return state_name_parts{std::string{name.substr(0, end)},
                          std::string{name.substr(end + 1)}};
}

}  // namespace troupe
