// The messages between processes until all are ready.
#include "parse.hpp"
#include "troupe/engine/launch/rendezvous_messages.hpp"
#include "troupe/engine/transport/address/endpoint.hpp"

using namespace troupe;

namespace {

void look_at(const join_request& who) {
  in_words(who);
  std::vector<std::optional<join_request>> members(2);
  members[0] = join_request{
    0, 2, 1, "here", {"unix:/a", "m", "unix:/b"}, {{"--ranks", "2"}}};
  objection_to(who, members, members[0]->description);
  parse_endpoint(way_to(who.address, members[0]->address));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto message =
      read_rendezvous({frame_type::control, std::string(bytes), {}});
    testing::require(to_frame(message).head == bytes);
    if (const auto* who = std::get_if<join_request>(&message))
      look_at(*who);
  });
}
