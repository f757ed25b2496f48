// Schedules in compute-only CSV and in the project's text form.
#include "parse.hpp"
#include "troupe/schedules/csv.hpp"
#include "troupe/schedules/text_form.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read =
      is_text_form(text) ? from_text_form(text, "a text") : from_csv(text);
    const auto again = to_text_form(read);
    testing::require(to_text_form(from_text_form(again, "again")) == again);
  });
}
