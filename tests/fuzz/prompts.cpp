// Files of prompts, as text and as JSON lines.
#include "troupe/cli/model/prompts.hpp"
#include "parse.hpp"

using namespace troupe;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data,
                                      std::size_t size) {
  return testing::parse(data, size, [](std::string_view text) {
    const auto choice = testing::take_choice(text);
    const cli::token_texts tokens{choice % 2 == 0 ? 256 : 1000,
                                  choice % 2 == 0};
    const auto* name = choice % 4 < 2 ? "prompts.jsonl" : "prompts.txt";
    for (const auto& each :
         cli::read_prompts(text, name, tokens, {}, {.length = 64}))
      for (const auto id : each.ids)
        testing::require(id >= 0 && id < tokens.vocabulary);
  });
}
