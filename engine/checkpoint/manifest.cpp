#include "troupe/engine/checkpoint/manifest.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <span>

#include "troupe/base/fail.hpp"
#include "troupe/base/json_object.hpp"
#include "troupe/base/names.hpp"
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
constexpr double largest_number = 0x1p53;

/// A reader for an object of the manifest.
json_object<json> reader_of(const json& object, const std::string& source) {
  return {object, source + ":", source + ": ", error_code::invalid_checkpoint};
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

// The field with the digest of the manifest without this field.
constexpr auto digest_name = "sha256";

std::string digest_of(json fields) {
  fields.erase(digest_name);
  const auto text = json_text(fields);
  return sha256_of(std::as_bytes(std::span(text)));
}

std::vector<checkpoint_file> files_of(const json& parsed,
                                      const std::string& source) {
  const auto list = parsed.find("files");
  if (list == parsed.end() || !list->is_array())
    refuse_checkpoint(source, "lacks the list 'files'");
  std::vector<checkpoint_file> files;
  std::set<std::string> names;
  for (const auto& each : *list) {
    auto& file = files.emplace_back();
    auto fields = reader_of(each, source);
    fields.read("name", file.name);
    fields.read("bytes", file.bytes, 0, largest_number);
    fields.read_if("sha256", file.sha256, "a SHA-256", is_digest);
    fields.require_all();
    fields.read("not_finite", file.not_finite);
    if (!is_file_name(file.name))
      refuse_checkpoint(
        source, fmt::format("'{}' is not the name of a file in the checkpoint",
                            printable(file.name)));
    if (!names.insert(file.name).second)
      refuse_checkpoint(
        source, fmt::format("names the file '{}' twice", printable(file.name)));
  }
  return files;
}

}  // namespace

std::string to_json(const manifest& what) {
  auto files = json::array();
  for (const auto& file : what.files)
    files.push_back({{"name", file.name},
                     {"bytes", file.bytes},
                     {"sha256", file.sha256},
                     {"not_finite", file.not_finite}});
  json document{{"format", format_name},
                {"run", what.run},
                {"step", what.progress.step},
                {"microbatches", what.progress.microbatches},
                {"loss_scale", what.progress.loss_scale},
                {"good_steps", what.progress.good_steps},
                {"skipped", what.progress.skipped},
                {"settings", json(what.settings)},
                {"flags", json(what.flags)},
                {"learning_rate", json(what.learning_rate)},
                {"model", json(what.model)},
                {"aliases", json(what.aliases)},
                {"files", files}};
  document[digest_name] = digest_of(document);
  return json_text(document, 2) + "\n";
}

manifest parse_manifest(std::string_view text, const std::string& source) {
  const auto parsed = parsed_json<json>(text, 4);
  if (parsed.is_discarded())
    refuse_checkpoint(source,
                      "is not the JSON of a checkpoint; is it damaged?");
  auto fields = reader_of(parsed, source);
  std::string format, digest;
  fields.read("format", format);
  fields.require_all();
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
  manifest result;
  fields.read("run", result.run);
  fields.read("step", result.progress.step, 0, largest_number);
  fields.read("microbatches", result.progress.microbatches, 0, largest_number);
  fields.read_if("loss_scale", result.progress.loss_scale, "a number above 0",
                 [](double scale) { return scale > 0; });
  fields.read("good_steps", result.progress.good_steps, 0, largest_number);
  fields.read("settings", result.settings);
  fields.read("model", result.model);
  fields.read("aliases", result.aliases);
  fields.read(digest_name, digest);
  fields.require_all();
  fields.read("skipped", result.progress.skipped, 0, largest_number);
  fields.read("flags", result.flags);
  fields.read("learning_rate", result.learning_rate);
  result.files = files_of(parsed, source);
  if (digest != digest_of(parsed))
    refuse_checkpoint(source,
                      "is damaged: its own SHA-256 does not match its fields");
  return result;
}

std::string manifest::not_finite() const {
  for (const auto& file : files)
    if (!file.not_finite.empty())
      return file.not_finite;
  return {};
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
  return random_digits(4);
}

}  // namespace troupe
