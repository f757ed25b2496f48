#include "troupe/engine/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>

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
  std::string text(const char* name) const {
    const auto& value = field(name);
    if (!value.is_string())
      refuse(name, "not a string");
    return value.get<std::string>();
  }
  template <class Whole>
  Whole whole(const char* name) const {
    const auto& value = field(name);
    if (!value.is_number_unsigned()
        || value.get<std::uint64_t>() > largest_number)
      refuse(name, "not a whole number in 0..2^53");
    return static_cast<Whole>(value.get<std::uint64_t>());
  }
  double positive(const char* name) const {
    const auto& value = field(name);
    if (!value.is_number() || !(value.get<double>() > 0)
        || !std::isfinite(value.get<double>()))
      refuse(name, "not a number above 0");
    return value.get<double>();
  }
  texts_by_name texts(const char* name) const {
    texts_by_name found;
    const auto& value = field(name);
    if (!value.is_object())
      refuse(name, "not an object of strings");
    for (const auto& [key, each] : value.items()) {
      if (!each.is_string())
        refuse(name, "not an object of strings");
      found.emplace(key, each.get<std::string>());
    }
    return found;
  }
  [[noreturn]] void refuse(const char* name, const char* what) const {
    refuse_checkpoint(source_, fmt::format("'{}' is {}", name, what));
  }

 private:
  const json& object_;
  const std::string& source_;
};

json parse_shallow(std::string_view text, const std::string& source) {
  constexpr int deepest = 4;
  bool too_deep = false;
  const auto keep = [&](int depth, json::parse_event_t, json&) {
    too_deep = too_deep || depth > deepest;
    return !too_deep;
  };
  auto parsed = json::parse(text, keep, /*allow_exceptions=*/false);
  if (too_deep || parsed.is_discarded())
    refuse_checkpoint(source,
                      "is not the JSON of a checkpoint; is it damaged?");
  return parsed;
}

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
  const auto text = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  return sha256_of(std::as_bytes(std::span(text)));
}

void require_digest(const manifest_reader& fields, const json& parsed,
                    const std::string& source) {
  if (fields.text(digest_name) != digest_of(parsed))
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
    files.push_back({of_file.text("name"),
                     of_file.whole<std::uint64_t>("bytes"),
                     of_file.text("sha256")});
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
  return made.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

manifest parse_manifest(std::string_view text, const std::string& source) {
  const auto parsed = parse_shallow(text, source);
  const manifest_reader fields(parsed, source);
  const auto format = fields.text("format");
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
    .run = fields.text("run"),
    .progress = {.step = fields.whole<std::int64_t>("step"),
                 .microbatches = fields.whole<std::int64_t>("microbatches"),
                 .loss_scale = fields.positive("loss_scale"),
                 .good_steps = fields.whole<std::int64_t>("good_steps")},
    .settings = fields.texts("settings"),
    .model = fields.texts("model"),
    .aliases = fields.texts("aliases"),
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

std::string new_run_name() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i)
    name += fmt::format("{:08x}", random());
  return name;
}

}  // namespace troupe
