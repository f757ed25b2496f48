#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/trainer.hpp"
#include "troupe/base/deadline.hpp"
#include "troupe/cli/plan/fwd.hpp"
#include "troupe/cli/signals.hpp"
#include "troupe/cli/train/train_memory.hpp"
#include "troupe/cli/train/train_options.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/launch/job.hpp"
#include "troupe/engine/models/registry.hpp"
#include "troupe/engine/transport/mesh.hpp"
#include "troupe/training/resume.hpp"

namespace troupe {
class job_membership;
}

namespace troupe::cli {

/// Everything that a run needs, made from the flags and checked before any
/// work.
struct train_setup {
  built_model model;
  troupe::trainer_options trainer;
  std::int64_t epoch = 0;  // in which this process has come; 0: no job heals
  source_pointer training;
  source_pointer validation;    // null: no text is held out
  std::int64_t epoch_rows = 0;  // of the training text; 0: of a mixture
  std::int64_t validation_microbatches = 0;
  /// The settings that decide the order of the training data; checkpoints
  /// hold them.
  std::map<std::string, std::string> data_settings;
  /// Flags on which updates depend (resumed_settings.hpp).
  std::map<std::string, std::string> flags;
  /// The model's name and options (stored_model.hpp).
  std::map<std::string, std::string> model_texts;
};

/// A count with its noun: "1 block", "2 blocks"; "es" as in "2 microbatches".
std::string counted(std::int64_t count, const char* what,
                    const char* more = "s");

/// The file that determines the sizes of the pipeline, a plan or a schedule;
/// empty if flags do.
std::string sizes_file(const partition_options& options);

/// The pipeline by the flags: schedule or plan, split and execution, without
/// numerics. Throws `invalid_argument` and schedules' errors.
trainer_options pipeline_of(const train_options& options,
                            const built_model& model, model_source source);

/// Applies what training and its data determine about the model and, for a
/// model folder, its vocabulary. Throws `invalid_argument` for a flag that the
/// folder contradicts, and as `model_folder` does.
void fit_model_and_data(const CLI::App& command, train_options& options);

/// Sets --steps by --epochs, and --ranks of a plain loop. Throws
/// `invalid_argument`, `invalid_data`, `io` and schedules' errors.
train_setup make_setup(train_options& options);

/// Throws `invalid_argument` if the run would write a file or a folder, by any
/// flag, monitor or sink, that it also reads or writes otherwise, and `io` if
/// one can't be written. Removes what killed runs have left beside these files.
void require_outputs(const train_options& options);

/// The files and folders that a run writes, each with its flag.
std::vector<std::pair<std::string, std::string>> written_files(
  const train_options& options);

/// Throws what making the model would throw, for --initial and --parameters.
void require_model(const train_options& options, const train_setup& setup);

/// The line that is printed on a request to save.
inline std::string answer_to_save(const train_options& options,
                                  const signal_request& request) {
  return request.name
         + std::string(options.checkpoints.folder.empty()
                         ? ": nothing is saved without --checkpoints DIR"
                         : ": a checkpoint follows this step");
}

/// How long a step may still take after a signal; the rest of --grace is for
/// writing files.
inline std::chrono::milliseconds step_time_after_signal(
  const train_options& options) {
  return milliseconds_of(options.checkpoints.grace * 2 / 3);
}

/// `troupe train --plain`: trains by the reference loop, with the same output,
/// on the CPU or on the setup's first device.
void train_plain(const train_options& options, const train_setup& setup,
                 signal_watch& signals);

/// Trains by the setup's trainer. `membership`: in a job that heals, else null.
void train_pipeline(const train_options& options, train_setup& setup,
                    signal_watch& signals,
                    const std::shared_ptr<job_membership>& membership);

/// Opens the texts, and adds the sources of training and validation data, and
/// the settings of them that checkpoints hold. Throws `io`, `invalid_data` and
/// `invalid_argument`.
void add_data(train_setup& setup, const data_options& options);

/// Sizes and hashes of all files of one --text. Throws `io`.
std::string content_of_text(const std::string& path,
                            const data_options& options);

/// The accelerators named by `--device`, for this process's ranks; empty for
/// the CPU. The processes of one machine share them round-robin; `--plain`
/// takes one, by default the first. To be called before any other use of
/// LibTorch. Throws `invalid_argument` for an invalid device, `device` for a
/// missing one.
std::vector<std::shared_ptr<accelerator>> open_devices(
  const device_options& options, bool plain);

/// The options of `--overlap`. Throws `invalid_argument`.
overlap_options overlap_of(const device_options& options);

/// How this process meets the others of the job that the launcher started, and
/// that all have equal settings, including `more`. Processes other than 0 log
/// only warnings and errors from then on, with their number.
job_options joining_of(const CLI::App& command, const train_options& options,
                       const signal_watch& signals, job_description more = {});

/// Meets them; null if this process is alone. A signal ends the meeting: throws
/// `interrupted`.
std::shared_ptr<mesh> join_job(const CLI::App& command,
                               const train_options& options,
                               signal_watch& signals,
                               job_description more = {});

/// Throws `invalid_argument` for flags that are invalid without other
/// processes, or with them.
void require_job(const train_options& options);

/// Whether this process prints the output that all processes have in common
/// before it has met the others.
bool prints_common_output();

}  // namespace troupe::cli
