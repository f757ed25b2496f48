// Plans in lowered CSV and in the text form; valid ones are verified for every
// kind of transport, simulated, drawn and written.
#include "parse.hpp"
#include "troupe/engine/plan/check/verify.hpp"
#include "troupe/engine/plan/draw/draw.hpp"
#include "troupe/engine/plan/text/lowered_csv.hpp"
#include "troupe/engine/plan/text/plan_text.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto read =
      is_plan_text(text) ? plan_from_text(text) : from_lowered_csv(text);
    to_json(read);
    for (const auto kind : {transport_kind::buffered, transport_kind::credited,
                            transport_kind::rendezvous})
      for (const bool shared : {false, true})
        verify(read, {.kind = kind, .shared_fifo = shared});
    draw_svg(to_timeline(read, simulate(read)));
    const auto again = to_text(read);
    testing::require(to_text(plan_from_text(again)) == again);
  });
}
