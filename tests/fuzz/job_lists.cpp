// What processes exchange between steps: the parameters that they hold, and the
// ids of links between devices.
#include "parse.hpp"
#include "troupe/actors/job/job_parameters.hpp"
#include "troupe/engine/transport/wire.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto kind = testing::take_choice(bytes) % 3;
    frame part{frame_type::mail, std::string(bytes), tensor_list(2)};
    if (kind == 0)
      read_held(part, false);
    else if (kind == 1)
      testing::require(read_held(part, true).size() == 2);
    else
      testing::require(to_wire(from_wire<std::vector<std::string>>(bytes))
                       == bytes);
  });
}
