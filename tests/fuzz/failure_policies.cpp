// What is to be done on failures.
#include "parse.hpp"
#include "troupe/engine/membership/failure_text.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read = membership::parse_failure_policy(text);
    testing::require(membership::parse_failure_policy(membership::to_text(read))
                     == read);
  });
}
