#include "troupe/monitors/tensors/gradient_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "troupe/base/atomic_file.hpp"
#include "troupe/base/fail.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"

namespace troupe {

namespace {

void require_legal(const gradient_dump_options& o) {
  const auto refuse = [](const char* field, std::int64_t value,
                         const char* wanted) {
    fail(error_code::invalid_argument, "gradient_dump: {} is {}; use {}", field,
         value, wanted);
  };
  if (o.start < 0)
    refuse("start", o.start, "0 or more");
  if (o.end < o.start)
    refuse("end", o.end, "start or more");
  if (o.every < 1)
    refuse("every", o.every, "1 or more steps");
  if (o.save_first_n && *o.save_first_n < 1)
    refuse("save_first_n", *o.save_first_n, "1 or more");
  if (o.held_bytes < 1)
    refuse("held_bytes", o.held_bytes, "1 or more");
}

at::Tensor first_of_each_dimension(at::Tensor gradient, std::int64_t n) {
  for (std::int64_t d = 0; d < gradient.dim(); ++d)
    gradient = gradient.narrow(d, 0, std::min(n, gradient.size(d)));
  return gradient.contiguous();
}

std::string new_folder(const gradient_dump_options& options, std::int64_t step,
                       const char* kind) {
  const auto path = std::filesystem::path(options.folder) / "gradients"
                    / fmt::format("step{}", step) / kind;
  require_writable_folder(path.string());
  return path.string();
}

void dump(const tensors_event& op, const gradient_dump_options& options) {
  parameter_list gradients;
  for (const auto& record : op.tensors)
    if (record.tensor.defined())
      gradients.emplace_back(record.owner->name, record.tensor);
  if (gradients.empty())
    return;
  // Sharded parameters arrive in another order.
  std::ranges::sort(gradients, {}, &parameter_list::value_type::first);
  if (!options.save_first_n) {
    const auto folder = new_folder(options, op.source.step, "full_gradients");
    write_safetensors(
      fmt::format("{}/stage{}.safetensors", folder, op.source.stage),
      gradients);
    return;
  }
  const auto folder = new_folder(options, op.source.step, "sampled_gradients");
  for (const auto& [name, gradient] : gradients)
    write_safetensors(
      fmt::format("{}/{}.safetensors", folder, name),
      {{"gradient", first_of_each_dimension(gradient, *options.save_first_n)}});
}

}  // namespace

monitor gradient_dump_monitor(const gradient_dump_options& options) {
  require_legal(options);
  monitor result;
  result.name = "gradient_dump";
  result.limits.held_bytes = options.held_bytes;
  result.wants.steps = result.wants.warnings = false;
  result.wants.tensors = tensor_kind::gradient;
  result.wants.needs = tensor_needs::handle;
  result.wants.names = options.match;
  result.wants.first = options.start;
  result.wants.last = options.end;
  result.wants.every = options.every;
  result.wants.exempt = true;
  result.see = [options](const event& what) {
    const auto* op = std::get_if<tensors_event>(&what);
    // Replicas hold the same gradients by now.
    if (op && op->source.data_rank == 0)
      dump(*op, options);
  };
  return result;
}

}  // namespace troupe
