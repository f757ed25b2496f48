#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "troupe/monitors/sink.hpp"

namespace troupe {

/// A record of an event file: the bytes with their length and check sums.
std::string framed(std::string_view bytes);

/// TensorBoard's protobuf `Event` that opens a file. Seconds since 1970.
std::string version_event(double wall_time);

/// An `Event` that lets TensorBoard drop what earlier files of the folder hold
/// of this step and later ones.
std::string session_event(double wall_time, std::int64_t first_step);

/// An `Event` with the record's values and histograms. Tags are the metrics'
/// names, behind `validation/` or `inference/` outside of training. Values are
/// rounded to fp32, which is what the format holds. A histogram's buckets are
/// those of |x|, zeros in one of their own; `sum` and `sum_squares` are those
/// of x. Histograms without finite values are left out.
std::string summary_event(double wall_time, const metrics_record& record);

/// An `Event` with the settings of a run: as text under the tag `config`, and
/// as hyperparameters, which TensorBoard's tab HPARAMS compares between runs.
std::string settings_event(double wall_time,
                           const std::vector<run_setting>& settings);

/// Writes settings, scalars and histograms to an event file of its own,
/// `events.out.tfevents.TIME.HOST.PID.N`, in a folder that it makes where it
/// is missing; `tensorboard --logdir` of that folder or one above shows them.
/// Alerts are left out. Where the run has resumed from step `resumed`, the
/// steps after it count as recorded anew. Throws `io`.
sink_pointer tensorboard_sink(const std::string& folder,
                              std::int64_t resumed = 0);

}  // namespace troupe
