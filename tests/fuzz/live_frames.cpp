// Frames of a live job's endpoint, which come in pieces, and their JSON.
#include "parse.hpp"
#include "troupe/monitors/live/frame.hpp"
#include "troupe/monitors/live/json_fields.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const std::size_t piece = 1 + testing::take_choice(bytes);
    frame_parser parser(4096);
    while (!bytes.empty()) {
      parser.add(bytes.substr(0, piece));
      bytes.remove_prefix(std::min(piece, bytes.size()));
      while (const auto whole = parser.next()) {
        frame_bytes(whole->type, whole->payload);
        json_text(parse_json(whole->payload));
      }
    }
  });
}
