// The environment variables of launchers: one NAME=VALUE per line.
#include <map>

#include "parse.hpp"
#include "troupe/engine/launch/environment.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

using namespace troupe;

namespace {

std::map<std::string, std::string> variables_of(std::string_view text) {
  std::map<std::string, std::string> variables;
  while (!text.empty()) {
    const auto line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const auto equals = std::min(line.find('='), line.size());
    variables[std::string(line.substr(0, equals))] =
      line.substr(std::min(equals + 1, line.size()));
  }
  return variables;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto variables = variables_of(text);
    const auto place = read_environment(
      [&](const std::string& name) -> std::optional<std::string> {
        const auto found = variables.find(name);
        if (found == variables.end())
          return {};
        return found->second;
      });
    testing::require(place.process >= 0 && place.process < place.processes
                     && place.local_processes >= 1);
  });
}
