#pragma once

#include <string>
#include <string_view>

#include "troupe/schedules/schedule.hpp"

namespace troupe {

/// Reads the compute-only CSV of torch.distributed.pipelining: one line per
/// rank, from rank 0. Strict: refuses what PyTorch's writer never writes.
/// `source` names the text in errors: malformed_text with line, column and
/// cell, invalid_schedule with line, cell and rank.
schedule from_csv(std::string_view text, std::string_view source = "CSV");

/// Writes the CSV, in lines that end in CR LF, without idle cells. Throws
/// `error` (invalid_argument) for schedules with slices or copies, which the
/// format can't express.
std::string to_csv(const schedule& lanes);

/// Reads a file: CSV, or the project's own text (text_form.hpp), recognised by
/// its first line. Throws `error`; io if it can't be read.
schedule load_schedule(const std::string& path);

}  // namespace troupe
