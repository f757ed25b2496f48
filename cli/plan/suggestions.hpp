#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace troupe::cli {

/// "; did you mean X?" if names are similar to the word, else ".".
std::string suggestion(std::string_view word,
                       const std::vector<std::string>& names);

/// What a flag or configuration key of Megatron-LM, DeepSpeed, torchtune,
/// torchtitan, nanoGPT or Transformers is called here, as in "use --lr" or
/// "use --microbatch-size, the rows of a microbatch"; empty if it is unknown,
/// or if its counterpart is not among the flags.
std::string advice_on_peers_flag(std::string_view name,
                                 const std::vector<std::string>& flags);

/// "; use bf16" for another name of one of the words, such as bfloat16; else
/// empty.
std::string advice_on_peers_word(std::string_view word,
                                 const std::vector<std::string>& words);

/// How the refusal of an unknown flag, with its dashes, goes on: the
/// counterpart of a flag of theirs, similar flags, or ".".
std::string suggested_flag(std::string_view name,
                           const std::vector<std::string>& flags);

}  // namespace troupe::cli
