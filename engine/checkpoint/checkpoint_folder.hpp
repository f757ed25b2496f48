#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/checkpoint/manifest.hpp"
#include "troupe/engine/device/tensor.hpp"

namespace troupe {

/// The step that the name of a checkpoint's folder tells; none for other names.
std::optional<std::int64_t> step_of_folder(const std::string& path);

/// Which checkpoints of a folder outlive a new one.
struct kept_checkpoints {
  /// At least 1; if none of them is finite, also the last one that is.
  std::int32_t last = 2;
  std::int64_t every = 0;  // and those of steps that this divides; 0: none
};

/// A folder of checkpoints, each a folder `step-00000120` of its own: one
/// safetensors file for each part of a run, and the manifest. A checkpoint
/// appears under that name complete or not at all: its files are written and
/// synchronised under a hidden name, which is renamed at last. Several
/// processes write the parts of one checkpoint, if they share the file system;
/// process 0 completes it. One thread of a process at a time.
class checkpoint_folder {
 public:
  /// `attempt`: the same in all processes of a run, and different for each
  /// start of it, so that a process left over from an earlier start cannot mix
  /// its parts with theirs.
  explicit checkpoint_folder(std::string path, std::string attempt = "one")
    : path_(std::move(path)), attempt_(std::move(attempt)) {}

  const std::string& path() const { return path_; }

  /// Makes the folder, and puts back or removes what killed processes have left
  /// in it. For process 0, before any process writes. Returns a sentence if
  /// something can't be removed, for example because a process of a killed job
  /// still writes to it: it does no harm. Throws `io`.
  std::string prepare() const;

  /// Steps of the checkpoints, damaged ones too; the last one first. None if
  /// there is no folder; throws `io` for one that can't be read.
  std::vector<std::int64_t> steps() const;
  std::string path_of(std::int64_t step) const;

  /// Makes the folder of a checkpoint's parts. For process 0, before it waits
  /// for them: it may have none itself. Throws `io`.
  void begin(std::int64_t step) const;
  /// Writes part `part` of a checkpoint. Throws `io`, also where another
  /// process discarded the checkpoint.
  void write_part(std::int64_t step, std::int32_t part,
                  const parameter_list& tensors) const;
  /// Waits until all parts are written, asking `give_up` meanwhile; then names
  /// them in the manifest, makes the checkpoint appear, and removes those that
  /// need not be kept. Throws `io`, also where another process discarded them;
  /// `interrupted` where it gave up: then there is no checkpoint, and one of
  /// this step that was there before still is. Returns a sentence if the
  /// checkpoint is complete, but the folder could not be synchronised or
  /// something older not be removed; empty if all is well.
  std::string complete(manifest what, std::int32_t parts,
                       const kept_checkpoints& kept,
                       const std::function<bool()>& give_up = {}) const;

  /// Lets a network file system look again for the parts that other machines
  /// have written: it may remember for a minute what a folder lacked. Never
  /// throws.
  void look_again(std::int64_t step) const noexcept;

  /// Renames the checkpoints of later steps to `step-00000140.damaged`, or
  /// `.not-finite`, because a run that resumes before them writes others of the
  /// same steps. One of a step that is not finite replaces an earlier one.
  void set_aside_after(std::int64_t step) const;

  /// Removes the parts of a checkpoint that is not completed. For process 0: a
  /// removal by another one may meet the renames of `complete`. Never throws.
  void discard(std::int64_t step) const noexcept;
  /// Tells the other processes, whose `write_part` and `complete` of this step
  /// fail from then on. Never throws.
  void refuse(std::int64_t step) const noexcept;

  /// The last checkpoint whose files are all as its manifest says, and whose
  /// tensors are finite; `refused` receives a sentence for each later one.
  /// Returns none if there is no checkpoint. Throws `io` for a later one that
  /// can't be read, and `mismatch` for one of another format: they may be
  /// intact.
  std::optional<std::string> last_valid(
    const std::function<void(const std::string&)>& refused) const;

 private:
  std::string hidden(std::int64_t step, const char* what) const;
  std::string partial(std::int64_t step) const;
  std::string discarded(std::int64_t step) const;
  bool put_back(const std::string& name) const;
  void put_in_place(std::int64_t step) const;
  std::string clean_up(std::int64_t step, const kept_checkpoints& kept) const;
  std::vector<std::string> abandoned(std::int64_t step) const;
  std::vector<std::int64_t> outlived(const kept_checkpoints& kept) const;
  void remove(std::int64_t step) const;

  std::string path_;
  std::string attempt_;
};

}  // namespace troupe
