#include "troupe/cli/model/prompts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "troupe/base/fail.hpp"
#include "troupe/base/json_object.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"
#include "troupe/schedules/text_form.hpp"

namespace troupe::cli {

namespace {

/// The request of one line's JSON object.
generation_request request_of(std::string_view line, const std::string& place,
                              const token_texts& tokens,
                              generation_request request) {
  const auto object = parsed_json(line, 8);
  if (!object.is_object())
    fail(error_code::invalid_data,
         "{} is not a JSON object such as {{\"text\": \"In the beginning\"}}",
         place);
  json_object fields(object, place, place + ' ', error_code::invalid_data);
  std::string text;
  fields.read("text", text);
  fields.read_if(
    "ids", request.ids,
    fmt::format("a list of numbers from 0 to {}", tokens.vocabulary - 1),
    [&](const auto& ids) {
      return std::ranges::all_of(ids, [&](std::int64_t id) {
        return id >= 0 && id < tokens.vocabulary;
      });
    });
  const auto whole = [&](const char* name, auto& target) {
    fields.read_if(name, target, "a whole number of at least 0",
                   [](auto value) { return value >= 0; });
  };
  whole("max_tokens", request.tokens);
  whole("top_k", request.sampling.top_k);
  whole("seed", request.sampling.seed);
  if (object.contains("seed"))
    request.sampling.stream = 0;
  fields.read("temperature", request.sampling.temperature);
  fields.read("top_p", request.sampling.top_p);
  fields.require_known();
  if (object.contains("text") == object.contains("ids"))
    fail(error_code::invalid_data,
         "{} has both or none of 'text' and 'ids'; give one", place);
  if (object.contains("text"))
    request.ids = tokens.ids_of(text, place);
  return request;
}

}  // namespace

std::vector<std::int64_t> token_texts::ids_of(std::string_view text,
                                              std::string_view what) const {
  std::vector<std::int64_t> ids;
  if (bytes) {
    for (const auto c : text)
      ids.push_back(static_cast<unsigned char>(c));
    for (const auto id : ids)
      if (id >= vocabulary)
        fail(error_code::invalid_argument,
             "{} '{}' has a byte beyond the vocabulary of {}", what,
             printable(text), vocabulary);
    return ids;
  }
  std::istringstream words{std::string(text)};
  for (std::string word; words >> word;) {
    const auto id = parse_number<std::int64_t>(word);
    if (!id || *id < 0 || *id >= vocabulary)
      fail(error_code::invalid_argument,
           "{} '{}': the tokens are not bytes, so give a list of ids from 0 to "
           "{}, such as '5 17'",
           what, printable(text), vocabulary - 1);
    ids.push_back(*id);
  }
  return ids;
}

std::string token_texts::text_of(const std::vector<std::int64_t>& ids) const {
  if (!bytes)
    return fmt::format("{}", fmt::join(ids, " "));
  std::string text;
  for (const auto id : ids)
    text += static_cast<char>(id);
  return text;
}

std::vector<generation_request> read_prompts(
  std::string_view content, const std::string& source,
  const token_texts& tokens, const generation_request& usual,
  const generation_options& options) {
  const bool objects = source.ends_with(".jsonl");
  std::vector<generation_request> requests;
  std::int64_t number = 0;
  for (auto line : split_words(content, '\n')) {
    ++number;
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty())
      continue;
    const auto place = fmt::format("{}, line {}:", printable(source), number);
    auto request = objects ? request_of(line, place, tokens, usual) : usual;
    if (!objects)
      request.ids = tokens.ids_of(line, place);
    require_legal(request, place, options);
    requests.push_back(std::move(request));
  }
  if (requests.empty())
    fail(error_code::invalid_argument, "{} holds no prompt", printable(source));
  return requests;
}

}  // namespace troupe::cli
