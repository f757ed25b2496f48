#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

/// The tokens that end a text, by the field `eos_token_id`, an id or a list of
/// them, of a JSON text; empty: it names none. `origin`: for errors, which are
/// `invalid_checkpoint`.
std::vector<std::int64_t> text_ends_of(const std::string& fields,
                                       const std::string& origin);
/// Those of a model_folder: generation_config.json says, or config.json if
/// there is none. Throws `io`, too.
std::vector<std::int64_t> text_ends_in(const std::string& folder);

}  // namespace troupe
