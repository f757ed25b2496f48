#include "troupe/monitors/tensors/frame.hpp"

#include <fmt/format.h>

#include <limits>

namespace troupe {

namespace {

constexpr auto infinity = std::numeric_limits<double>::infinity();
constexpr auto not_a_number = std::numeric_limits<double>::quiet_NaN();

/// min|x| and max|x| as the whole tensor has them, non-finites included.
std::pair<double, double> range_of(const tensor_statistics& s) {
  if (s.nans > 0)
    return {not_a_number, not_a_number};
  if (s.infs == 0)
    return {s.min_abs, s.max_abs};
  return {s.finite() > 0 ? s.min_abs : infinity, infinity};
}

std::string line_of(const tensor_record& record) {
  const auto part = part_text(record);
  if (record.content == tensor_content::nothing)
    return fmt::format("{:>17} {}\n", "None", part);
  if (record.content == tensor_content::other)
    return fmt::format("{:>17} {}\n",
                       record.dtype == at::ScalarType::Undefined
                         ? "not a tensor"
                         : "not measured",
                       part);
  const auto [low, high] = range_of(record.statistics);
  return fmt::format("{:>8.2e} {:>8.2e} {}\n", low, high, part);
}

}  // namespace

std::string place_text(const tensors_event& op) {
  const auto& place = op.source;
  auto text = fmt::format("rank {}, stage {}", place.rank, place.stage);
  if (place.data_rank > 0)
    text = fmt::format("replica {}, {}", place.data_rank, text);
  if (place.microbatch < 0)
    return text + ", before the update";
  return fmt::format("{}, microbatch {}, {}", text, place.microbatch,
                     op.backward ? "backward" : "forward");
}

std::vector<module_frame> frames_of(const tensors_event& op) {
  std::vector<module_frame> frames;
  const tensor_record* before = nullptr;
  for (const auto& record : op.tensors) {
    if (!before || before->call != record.call
        || before->owner->name != record.owner->name) {
      const auto& owner = *record.owner;
      const auto class_name =
        owner.class_name.empty() ? "" : " " + owner.class_name;
      frames.push_back({{},
                        fmt::format("{:17} {}{} ({})\n", "", owner.name,
                                    class_name, place_text(op))});
    }
    before = &record;
    frames.back().records.push_back(&record);
    frames.back().text += line_of(record);
  }
  return frames;
}

std::string frame_header() {
  return fmt::format("{:8} {:8} metadata\n", "abs min", "abs max");
}

std::string start_of_batch(std::int64_t batch) {
  return fmt::format("\n\n{:17} *** Starting batch number={} ***\n{}", "",
                     batch, frame_header());
}

std::string end_of_batch(std::int64_t batch) {
  return fmt::format("{:17} *** Finished batch number={} ***\n", "", batch);
}

}  // namespace troupe
