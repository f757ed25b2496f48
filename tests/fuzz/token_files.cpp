// Files of tokens: NumPy's, llm.c's, nanoGPT's, Megatron's index, and plain
// bytes.
#include "troupe/engine/data/token_file.hpp"
#include "troupe/engine/data/token_headers.hpp"

#include "file_of_bytes.hpp"
#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view bytes) {
    const auto choice = testing::take_choice(bytes) % 6;
    if (choice == 5) {
      const auto index = parse_megatron_index(
        "index", std::as_bytes(std::span(bytes.data(), bytes.size())));
      return testing::require(index.tokens >= 0 && index.type.width > 0);
    }
    const testing::file_of_bytes file(bytes);
    const auto opened =
      choice == 4 ? open_tokens(file.path())
                  : open_tokens(file.path(), static_cast<token_format>(choice));
    testing::require(opened->size() <= static_cast<std::int64_t>(bytes.size()));
    std::vector<std::int64_t> tokens(static_cast<std::size_t>(opened->size()));
    opened->read(0, opened->size(), tokens.data());
  });
}
