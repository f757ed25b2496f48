#include "troupe/engine/models/decoders/rotary.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <ranges>
#include <utility>

#include "troupe/engine/fused/rotary.hpp"
#include "troupe/engine/models/decoders/model_config.hpp"

namespace troupe {

namespace {

/// base^(2 i / dimensions).
at::Tensor powers(double base, std::int64_t dimensions) {
  const auto exponents = at::arange(0, dimensions, 2, at::kLong).to(at::kFloat)
                         / static_cast<double>(dimensions);
  return at::pow(base, exponents);
}

double magnitude(double factor, double scale) {
  return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1;
}

/// NTK-aware scaling, by the length of the sequence.
at::Tensor dynamic_frequencies(const rotary_options& o, std::int64_t length) {
  const auto longest = static_cast<double>(o.length);
  const auto ratio = std::max(static_cast<double>(length), longest) / longest;
  const auto size = static_cast<double>(o.dimensions);
  const auto base =
    o.base * std::pow(o.factor * ratio - (o.factor - 1), size / (size - 2));
  return 1 / powers(base, o.dimensions);
}

at::Tensor llama3_frequencies(const rotary_options& o) {
  const auto plain = 1 / powers(o.base, o.dimensions);
  const auto original = static_cast<double>(o.original_length);
  const auto lengths = 2 * std::numbers::pi / plain;
  const auto slow = lengths > original / o.low_frequency;
  const auto fast = lengths < original / o.high_frequency;
  const auto smooth = (original / lengths - o.low_frequency)
                      / (o.high_frequency - o.low_frequency);
  const auto between = (1 - smooth) * plain / o.factor + smooth * plain;
  return at::where(slow, plain / o.factor, at::where(fast, plain, between));
}

/// Peng et al., 2023.
at::Tensor yarn_frequencies(const rotary_options& o) {
  const auto size = static_cast<double>(o.dimensions);
  const auto dimension_of = [&](double rotations) {
    return size
           * std::log(static_cast<double>(o.original_length)
                      / (rotations * 2 * std::numbers::pi))
           / (2 * std::log(o.base));
  };
  auto low = dimension_of(o.beta_fast), high = dimension_of(o.beta_slow);
  if (o.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, size - 1);
  if (low == high)
    high += 0.001;
  const auto ramp =
    ((at::arange(o.dimensions / 2, at::kFloat) - low) / (high - low))
      .clamp(0, 1);
  const auto extrapolated = 1 / powers(o.base, o.dimensions);
  const auto interpolated = 1 / (o.factor * powers(o.base, o.dimensions));
  return interpolated * ramp + extrapolated * (1 - ramp);
}

at::Tensor longrope_frequencies(const rotary_options& o, std::int64_t length) {
  const auto& factors =
    length > o.original_length ? o.long_factor : o.short_factor;
  return 1 / (at::tensor(factors, at::kFloat) * powers(o.base, o.dimensions));
}

rotary_options::scaling scaling_of(model_config& config,
                                   const std::string& kind) {
  using enum rotary_options::scaling;
  constexpr std::array<std::pair<const char*, rotary_options::scaling>, 6>
    kinds{{{"default", none},
           {"linear", linear},
           {"dynamic", dynamic},
           {"llama3", llama3},
           {"yarn", yarn},
           {"longrope", longrope}}};
  for (const auto& [name, value] : kinds)
    if (kind == name)
      return value;
  config.refuse("rope_type",
                fmt::format("is '{}'; supported: {}", kind,
                            fmt::join(kinds | std::views::keys, ", ")));
}

std::vector<double> factors_of(model_config& config, const std::string& name,
                               std::int64_t dimensions) {
  auto factors = config.read<std::vector<double>>(name);
  if (const auto needed = (dimensions + 1) / 2; std::ssize(factors) != needed)
    config.refuse(
      name, fmt::format("has {} numbers, not {}", factors.size(), needed));
  return factors;
}

/// A number of a YaRN scaling, of which transformers takes zeros for missing.
std::optional<double> nonzero(model_config& config, const std::string& name) {
  const auto number = config.optional_number(name);
  return number == 0.0 ? std::nullopt : number;
}

/// What the kind of scaling needs; `config`: the object that names it.
void read_scaling(model_config& config, rotary_options& r) {
  using enum rotary_options::scaling;
  if (r.kind == none)
    return;
  const auto usual = r.kind == yarn || r.kind == longrope
                       ? std::optional(static_cast<double>(r.length)
                                       / static_cast<double>(r.original_length))
                       : std::nullopt;
  r.factor = config.number("factor", usual);
  if (!(r.factor >= 1))
    config.refuse("factor", fmt::format("is {}, and less than 1", r.factor));
  if (r.kind == llama3) {
    r.low_frequency = config.number("low_freq_factor");
    r.high_frequency = config.number("high_freq_factor");
    if (!(r.low_frequency > 0 && r.high_frequency > r.low_frequency))
      config.refuse("high_freq_factor", "is not above low_freq_factor");
  }
  if (r.kind == yarn || r.kind == longrope)
    r.attention_factor = config.optional_number("attention_factor");
  if (r.kind == yarn) {
    r.beta_fast = nonzero(config, "beta_fast").value_or(32);
    r.beta_slow = nonzero(config, "beta_slow").value_or(1);
    r.mscale = nonzero(config, "mscale");
    r.mscale_all_dim = nonzero(config, "mscale_all_dim");
    r.truncate = config.flag("truncate", !config.lists("truncate"));
    if (!(r.beta_slow > 0 && r.beta_fast > r.beta_slow))
      config.refuse("beta_fast", "is not above beta_slow");
  }
  if (r.kind == longrope) {
    r.short_factor = factors_of(config, "short_factor", r.dimensions);
    r.long_factor = factors_of(config, "long_factor", r.dimensions);
  }
}

}  // namespace

at::Tensor rotary_frequencies(const rotary_options& options,
                              std::int64_t length) {
  using enum rotary_options::scaling;
  switch (options.kind) {
    case dynamic:
      return dynamic_frequencies(options, length);
    case llama3:
      return llama3_frequencies(options);
    case yarn:
      return yarn_frequencies(options);
    case longrope:
      return longrope_frequencies(options, length);
    case linear:
      return 1 / powers(options.base, options.dimensions) / options.factor;
    case none:
      break;
  }
  return 1 / powers(options.base, options.dimensions);
}

double rotary_attention_factor(const rotary_options& options) {
  using enum rotary_options::scaling;
  if (options.attention_factor)
    return *options.attention_factor;
  if (options.kind == yarn && options.mscale && options.mscale_all_dim)
    return magnitude(options.factor, *options.mscale)
           / magnitude(options.factor, *options.mscale_all_dim);
  if (options.kind == yarn)
    return magnitude(options.factor, 1);
  if (options.kind == longrope && options.factor > 1)
    return std::sqrt(
      1
      + std::log(options.factor)
          / std::log(static_cast<double>(options.original_length)));
  return 1;
}

rotation rotation_of(const rotary_options& options, std::int64_t first,
                     std::int64_t count, at::Device device) {
  const auto angles = at::outer(at::arange(first, first + count, at::kFloat),
                                rotary_frequencies(options, first + count));
  const auto factor = rotary_attention_factor(options);
  return {(angles.cos() * factor).to(device),
          (angles.sin() * factor).to(device)};
}

at::Tensor rotated(const at::Tensor& x, const rotation& by) {
  return fused::rotate(x.transpose(1, 2), by.cosines, by.sines).transpose(1, 2);
}

rotation rotary_table::of(std::int64_t first, std::int64_t count,
                          at::Device device) {
  const auto end = first + count;
  const auto steady = options_.steady_length();
  if (steady && end > *steady)
    return rotation_of(options_, first, count, device);
  const bool has = !tables_.empty() && tables_.back().cosines.size(0) >= end
                   && tables_.back().cosines.device() == device;
  if (!has) {
    const at::NoGradGuard no_grad;
    const auto grown =
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(end)));
    tables_.push_back(rotation_of(
      options_, 0, steady ? std::min(grown, *steady) : grown, device));
  }
  const auto& all = tables_.back();
  return {all.cosines.narrow(0, first, count),
          all.sines.narrow(0, first, count)};
}

rotary_options read_rotary(model_config& config, std::int64_t head_size,
                           double base, double share) {
  rotary_options r;
  r.length = config.whole("max_position_embeddings");
  r.base = config.number("rope_theta", base);
  share = config.number("partial_rotary_factor", share);
  const auto original =
    config.whole("original_max_position_embeddings", 0, 0);  // as Phi 3 has it
  r.original_length = original > 0 ? original : r.length;
  // transformers prefers the older field, unless it is empty.
  const auto* name =
    config.has("rope_scaling") && !config.inner("rope_scaling").is_empty()
      ? "rope_scaling"
      : "rope_parameters";
  config.ignore({"rope_parameters", "rope_scaling"});
  const auto rotate = [&](double part) {
    r.dimensions =
      static_cast<std::int64_t>(static_cast<double>(head_size) * part);
  };
  rotate(share);
  if (!config.has(name))
    return r;
  auto inner = config.inner(name);
  r.base = inner.number("rope_theta", r.base);
  rotate(inner.number("partial_rotary_factor", share));
  const auto told =
    inner.whole("original_max_position_embeddings", r.original_length);
  r.original_length = original > 0 ? original : told;
  const auto older = inner.text("type", "default");
  r.kind = scaling_of(inner, inner.text("rope_type", older));
  read_scaling(inner, r);
  inner.finish();
  return r;
}

}  // namespace troupe
