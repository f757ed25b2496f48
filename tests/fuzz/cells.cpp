// The text of one op, in PyTorch's and the project's spelling.
#include "parse.hpp"
#include "troupe/schedules/cell.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const bool own = testing::take_choice(text) % 2 == 1;
    const auto read =
      parse_cell(text, own ? spelling::project : spelling::pytorch);
    testing::require(own || to_text(read) == text);
  });
}
