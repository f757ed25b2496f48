#pragma once

#include <string>

#include "troupe/cli/train/train_setup.hpp"

namespace troupe::cli {

/// Opens the texts, and makes the sources of training and validation, and what
/// checkpoints hold of them. Throws `io`, `invalid_data` and
/// `invalid_argument`.
void add_data(train_setup& setup, const data_options& options);

/// Sizes and hashes of all files of one --text. Throws `io`.
std::string content_of_text(const std::string& path,
                            const data_options& options);

}  // namespace troupe::cli
