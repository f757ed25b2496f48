// Sizes of what ops keep and make.
#include "parse.hpp"
#include "troupe/engine/plan/cost/peak_bytes.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read = parse_sizes(text);
    testing::require(read.row(3).kept >= 0 && read.usual.gradient >= 0);
  });
}
