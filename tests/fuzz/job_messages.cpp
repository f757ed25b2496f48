// Messages between the processes of a running job: control, envelopes of
// tensors, parts of reductions, credits, chosen tokens.
#include "parse.hpp"
#include "troupe/actors/job/wire_messages.hpp"
#include "troupe/engine/transport/wire.hpp"

#include <ATen/ops/zeros.h>

using namespace troupe;

namespace {

/// As from the transport: with any number of tensors.
frame some_frame(std::string_view bytes) {
  frame result{frame_type::control, {}, {}};
  for (auto tensors = testing::take_choice(bytes) % 4; tensors > 0; --tensors)
    result.tensors.push_back(tensors == 2 ? at::Tensor{} : at::zeros({2}));
  result.head = bytes;
  return result;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto kind = testing::take_choice(bytes) % 5;
    auto what = some_frame(bytes);
    if (kind == 0)
      to_frame(read_control(std::move(what)));
    else if (kind == 1)
      to_frame(read_stage_tensors(std::move(what)));
    else if (kind == 2)
      to_frame(read_collective_part(std::move(what)));
    else if (kind == 3)
      to_frame(from_wire<credit_back>(what.head));
    else
      to_frame(from_wire<chosen_tokens>(what.head));
  });
}
