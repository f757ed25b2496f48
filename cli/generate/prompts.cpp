#include "troupe/cli/generate/prompts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <sstream>

#include "troupe/base/error.hpp"
#include "troupe/base/json.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"

namespace troupe::cli {

namespace {

using nlohmann::json;

/// One line's object.
class prompt_line {
 public:
  prompt_line(std::string_view text, std::string place)
    : place_(std::move(place)), object_(parsed_json(text, 8)) {
    if (!object_.is_object())
      refuse("is not a JSON object such as {\"text\": \"In the beginning\"}");
  }

  generation_request request(const token_texts& tokens,
                             generation_request usual) const {
    static const std::set<std::string> known{
      "text", "ids", "max_tokens", "temperature", "top_k", "top_p", "seed"};
    for (const auto& [name, value] : object_.items())
      if (!known.contains(name))
        refuse(fmt::format("has the unknown field '{}'; known are {}",
                           printable(name), fmt::join(known, ", ")));
    if (object_.contains("text") == object_.contains("ids"))
      refuse("has both or none of 'text' and 'ids'; give one");
    auto made = std::move(usual);
    made.ids = object_.contains("text") ? ids_of_text(tokens) : ids(tokens);
    whole("max_tokens", made.tokens);
    whole("top_k", made.sampling.top_k);
    whole("seed", made.sampling.seed);
    read("temperature", made.sampling.temperature);
    read("top_p", made.sampling.top_p);
    return made;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    fail(error_code::invalid_data, "{} {}", place_, what);
  }
  std::vector<std::int64_t> ids_of_text(const token_texts& tokens) const {
    std::string text;
    read("text", text);
    return tokens.ids_of(text, place_);
  }
  std::vector<std::int64_t> ids(const token_texts& tokens) const {
    std::vector<std::int64_t> made;
    read("ids", made);
    for (const auto id : made)
      if (id < 0 || id >= tokens.vocabulary)
        refuse(
          fmt::format("has 'ids' that are not a list of numbers from 0 to {}",
                      tokens.vocabulary - 1));
    return made;
  }
  template <class T>
  void read(const char* name, T& target) const {
    if (!object_.contains(name))
      return;
    const auto found = json_as<T>(object_[name]);
    if (!found)
      refuse(fmt::format("has a '{}' that is not {}", name, json_kind<T>()));
    target = *found;
  }
  template <class Whole>
  void whole(const char* name, Whole& target) const {
    std::int64_t value = 0;
    if (!object_.contains(name))
      return;
    read(name, value);
    if (value < 0)
      refuse(fmt::format("has a '{}' that is not a whole number of at least 0",
                         name));
    target = static_cast<Whole>(value);
  }

  std::string place_;
  json object_;
};

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
  for (std::int64_t number = 1; !content.empty(); ++number) {
    const auto end = content.find('\n');
    auto line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size()
                                                        : end + 1);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (line.empty())
      continue;
    const auto place = fmt::format("{}, line {}:", printable(source), number);
    auto made = usual;
    if (objects)
      made = prompt_line(line, place).request(tokens, usual);
    else
      made.ids = tokens.ids_of(line, place);
    require_legal(made, place, options);
    requests.push_back(std::move(made));
  }
  if (requests.empty())
    fail(error_code::invalid_argument, "{} holds no prompt", printable(source));
  return requests;
}

}  // namespace troupe::cli
