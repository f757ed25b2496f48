#include "troupe/lab/api.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "troupe/base/error.hpp"
#include "troupe/lab/answer.hpp"
#include "troupe/lab/fields.hpp"
#include "troupe/schedules/builtin.hpp"

namespace troupe::lab {

namespace {

using nlohmann::ordered_json;

nlohmann::json rule_json(const size_rule& rule) {
  return {{"least", rule.least}, {"most", rule.most}, {"even", rule.even}};
}

ordered_json schedules() {
  auto list = ordered_json::array();
  for (const auto& row : builtin_schedules())
    list.push_back({{"name", row.name},
                    {"summary", row.summary},
                    {"accepts", row.accepts},
                    {"ranks", rule_json(row.ranks)},
                    {"stages_per_rank", rule_json(row.stages_per_rank)},
                    {"microbatches", rule_json(row.microbatches)},
                    {"microbatches_for_a_rank", row.microbatches_for_a_rank},
                    {"breadth", row.has_breadth},
                    {"slices", row.has_slices}});
  return {{"schedules", list},
          {"most_cells", most_cells},
          {"most_ranks", most_ranks}};
}

// A field of requests beside those of the job.
std::string taken(nlohmann::json& request, const char* name,
                  const char* usual) {
  std::string value{usual};
  fields(request).read(name, value);
  if (request.is_object())
    request.erase(name);
  return value;
}

ordered_json drawn(nlohmann::json request) {
  const auto theme = parse_theme(taken(request, "theme", "auto"));
  return draw(parse_job(request), theme);
}

ordered_json written(nlohmann::json request) {
  const auto theme = parse_theme(taken(request, "theme", "auto"));
  const auto format = taken(request, "format", "csv");
  const auto made = export_as(parse_job(request), format, theme);
  return {{"file", made.file}, {"text", made.text}};
}

ordered_json respond(const std::string& path, std::string_view body) {
  if (path == "/api/schedules")
    return schedules();
  return path == "/api/draw" ? drawn(parse_request(body, most_request_bytes))
                             : written(parse_request(body, most_request_bytes));
}

}  // namespace

reply answer(const std::string& path, std::string_view body) {
  if (path != "/api/schedules" && path != "/api/draw" && path != "/api/export")
    return {404, json_text(ordered_json{{"error", "no such path"}})};
  try {
    return {200, json_text(respond(path, body))};
  } catch (const error& refusal) {
    return {400, json_text(ordered_json{{"error", refusal.what()}})};
  }
}

}  // namespace troupe::lab
