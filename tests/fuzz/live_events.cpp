// Events of a live job, as clients read them.
#include "parse.hpp"
#include "troupe/monitors/live/event_json.hpp"
#include "troupe/monitors/live/json_fields.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto kind = testing::take_choice(text) % 3;
    const auto content = parse_json(text);
    if (kind == 0)
      json_text(json_of(event_of(content)));
    else if (kind == 1)
      testing::require(alert_of(json_of(alert_of(content))).text
                       == alert_of(content).text);
    else
      json_text(json_of(metrics_of(content)));
  });
}
