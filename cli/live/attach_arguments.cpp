#include "troupe/cli/live/attach_arguments.hpp"

#include <algorithm>

#include "troupe/base/error.hpp"
#include "troupe/cli/live/live_options.hpp"

namespace troupe::cli {

namespace {

bool is_own(const std::string& argument) {
  return argument == "--keep" || argument == "--json" || argument == "--help"
         || argument.starts_with("--token-file=");
}

/// Turns "--abort-after=3", or "--abort-after" and "3", into "abort_after=3".
std::string setting_of(const std::string& flag, const std::string& value) {
  const auto equals = flag.find('=');
  auto key = flag.substr(2, equals == std::string::npos ? equals : equals - 2);
  std::ranges::replace(key, '-', '_');
  return key + "="
         + (equals == std::string::npos ? value : flag.substr(equals + 1));
}

}  // namespace

std::vector<std::string> fold_settings(std::vector<std::string> arguments) {
  std::vector<std::string> folded;
  std::vector<std::size_t> specs;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto& argument = arguments[i];
    const bool more = i + 1 < arguments.size();
    if (argument == "--token-file" && more) {
      folded.insert(folded.end(), {argument, arguments[++i]});
    } else if (is_own(argument) || !argument.starts_with("--")) {
      if (!argument.starts_with("-") && !is_endpoint(argument))
        specs.push_back(folded.size());
      folded.push_back(argument);
    } else {
      if (specs.empty())
        fail(error_code::invalid_argument,
             "{} is not a flag of attach and follows no monitor: write "
             "settings after the monitor's name",
             argument);
      const bool has_value = more && argument.find('=') == std::string::npos
                             && !arguments[i + 1].starts_with("--");
      auto& spec = folded[specs.back()];
      spec += spec.find(':') == std::string::npos ? ':' : ',';
      spec += setting_of(argument, has_value ? arguments[i + 1] : "true");
      i += has_value ? 1 : 0;
    }
  }
  return folded;
}

}  // namespace troupe::cli
