// Which activations are offloaded.
#include "parse.hpp"
#include "troupe/engine/plan/compile/offload.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read = parse_offload(text);
    require_legal(read, 1 << 16);
    testing::require(read.of(3) >= 0 && read.of(3) <= 1);
  });
}
