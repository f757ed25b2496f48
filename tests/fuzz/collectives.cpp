// What members of a process_group call, as the others hear it.
#include "parse.hpp"
#include "troupe/engine/transport/process_group.hpp"
#include "troupe/engine/transport/wire.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    testing::require(!to_text(from_wire<collective_call>(bytes)).empty());
  });
}
