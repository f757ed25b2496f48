#pragma once

#include <map>
#include <optional>
#include <string>

#include "troupe/actors/trainer.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe::cli {

/// Everything that a run needs, made from the flags and checked before any
/// work.
struct train_setup {
  built_model model;
  troupe::trainer_options trainer;
  source_pointer training;
  source_pointer validation;  // null: no text is held out
  std::int64_t validation_microbatches = 0;
  /// The settings that decide the order of the training data; checkpoints
  /// hold them.
  std::map<std::string, std::string> data_settings;
  /// The model's name and options (stored_model.hpp).
  std::map<std::string, std::string> model_texts;
};

/// The file that decides the sizes of the pipeline, a plan or a schedule; empty
/// if flags do.
std::string sizes_file(const partition_options& options);

/// The pipeline that the flags ask for: schedule or plan, split, execution; no
/// numerics. Throws `invalid_argument` and schedules' errors.
trainer_options pipeline_of(const train_options& options,
                            const built_model& model);

/// Throws `invalid_argument`, `invalid_data`, `io` and schedules' errors.
train_setup make_setup(const train_options& options);

/// How steps compute, as the flags say, with the model's loss. Throws
/// `invalid_argument` naming a flag.
numerics numerics_for(const train_options& options, const built_model& model);

/// "bf16"; none for "same" and "none".
std::optional<at::ScalarType> dtype_of(const std::string& word);

/// Opens the texts, and makes the sources of training and validation, and what
/// checkpoints hold of them. Throws `io`, `invalid_data` and
/// `invalid_argument`.
void add_data(train_setup& setup, const data_options& options);

/// Sizes and hashes of all files of one --text. Throws `io`.
std::string content_of_text(const std::string& path,
                            const data_options& options);

/// The accelerators named by `--device`, for this process's ranks; empty for
/// the CPU. Processes of one machine take turns; `--plain` takes one, by
/// default the first. Call it before any other use of LibTorch. Throws
/// `invalid_argument` for an invalid device, `device` for a missing one.
std::vector<std::shared_ptr<accelerator>> open_devices(
  const device_options& options, bool plain);

/// The options of `--overlap`. Throws `invalid_argument`.
overlap_options overlap_of(const device_options& options);

}  // namespace troupe::cli
