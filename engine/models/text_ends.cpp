#include "troupe/engine/models/text_ends.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "troupe/base/input_file.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/engine/checkpoint/safetensors_header.hpp"
#include "troupe/engine/models/decoders/model_config.hpp"

namespace troupe {

namespace fs = std::filesystem;

std::vector<std::int64_t> text_ends_of(const std::string& fields,
                                       const std::string& origin) {
  const auto parsed = parsed_object(fields, origin);
  const auto found = parsed.find("eos_token_id");
  if (found == parsed.end() || found->is_null())
    return {};
  std::vector<std::int64_t> ids;
  const auto add = [&](const nlohmann::json& id) {
    if (!id.is_number_integer())
      refuse_checkpoint(
        origin, fmt::format("eos_token_id is {}, not an id or a list of them",
                            printable(found->dump())));
    ids.push_back(id.get<std::int64_t>());
  };
  if (found->is_array())
    for (const auto& id : *found)
      add(id);
  else
    add(*found);
  return ids;
}

std::vector<std::int64_t> text_ends_in(const std::string& folder) {
  const auto path = [&](const char* name) {
    return (fs::path(folder) / name).string();
  };
  auto source = path("generation_config.json");
  std::error_code trouble;
  if (!fs::exists(source, trouble))
    source = path("config.json");
  return text_ends_of(read_file(source), source);
}

}  // namespace troupe
