#include "troupe/cli/train/train_numerics.hpp"

#include <map>
#include <optional>
#include <string>

#include "troupe/base/error.hpp"
#include "troupe/base/parse_number.hpp"
#include "troupe/base/printable.hpp"

namespace troupe::cli {

namespace {

gradient_division division_of(const partition_options& o) {
  gradient_division made;
  if (o.division == "balanced")
    made = balanced_division(o.data_parallel);
  else if (o.division != "mean") {
    const auto comma = o.division.find(',');
    const auto before = parse_number<double>(o.division.substr(0, comma));
    const auto after = comma == std::string::npos
                         ? std::nullopt
                         : parse_number<double>(o.division.substr(comma + 1));
    if (!before || !after || *after == 0)
      fail(error_code::invalid_argument,
           "--divide-gradients {}: use mean, balanced or two factors, such as "
           "2,4",
           printable(o.division));
    made = {.before = *before, .after = *after};
  }
  made.in_fp32 = o.reduce_dtype == "fp32";
  return made;
}

}  // namespace

std::optional<at::ScalarType> dtype_of(const std::string& word) {
  static const std::map<std::string, at::ScalarType> known{
    {"fp32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  const auto found = known.find(word);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

numerics numerics_for(const train_options& o, const built_model& model) {
  using shape = learning_rate_schedule::shape;
  const auto& words = o.optimisation;
  auto made = o.numerics;
  made.loss = model.loss;
  made.optimizer = optimizer_for(words.optimizer);
  made.parameters = groups_for(words.optimizer);
  made.learning_rate.decay = words.decay == "cosine"   ? shape::cosine
                             : words.decay == "linear" ? shape::linear
                                                       : shape::constant;
  made.learning_rate.total_steps = o.steps;
  made.norm_type = words.clip_norm_type == "inf" ? norm_type::infinity
                   : words.clip_norm_type == "1" ? norm_type::one
                   : words.clip_norm_type == "3" ? norm_type::three
                                                 : norm_type::two;
  made.division = division_of(o.partition);
  made.autocast = dtype_of(words.autocast);
  made.dtypes = {dtype_of(words.dtype), dtype_of(words.buffer_dtype)};
  made.weight_split = words.weight_split == "layers"  ? weight_split::layers
                      : words.weight_split == "graph" ? weight_split::graph
                                                      : weight_split::automatic;
  return made;
}

}  // namespace troupe::cli
