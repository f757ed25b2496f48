#include "troupe/engine/stage/random.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "troupe/base/fail.hpp"
#include "troupe/engine/device/rank_device.hpp"
#include "troupe/engine/stage/random_draws.hpp"

namespace troupe {

random_draws*& current_draws() {
  static thread_local random_draws* draws = nullptr;
  return draws;
}

namespace {

constexpr philox_key key_of(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed),
          static_cast<std::uint32_t>(seed >> 32)};
}

constexpr philox_block counter_of(std::int64_t first, std::int64_t second) {
  const auto a = static_cast<std::uint64_t>(first);
  const auto b = static_cast<std::uint64_t>(second);
  return {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(a >> 32),
          static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(b >> 32)};
}

at::Generator generator_of(const philox_block& seed) {
  return at::make_generator<at::CPUGeneratorImpl>(std::uint64_t{seed.y} << 32
                                                  | seed.x);
}

/// The numbers of a group: [4][lanes].
struct philox_numbers {
  std::uint32_t of[4][philox_lanes];
};

/// Gives the numbers of `philox` for each block, by loops of constant length,
/// of which compilers make vector code.
philox_numbers numbers_of(const philox_stream& stream, std::int64_t group) {
  philox_numbers n;  // first the counters of the blocks
  const auto base = static_cast<std::uint64_t>(group * philox_lanes);
  for (int i = 0; i < philox_lanes; ++i) {
    n.of[0][i] =
      static_cast<std::uint32_t>(base) + static_cast<std::uint32_t>(i);
    n.of[1][i] = static_cast<std::uint32_t>(base >> 32);
    n.of[2][i] = stream.place;
    n.of[3][i] = stream.occurrence;
  }
  auto key = stream.key;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < philox_lanes; ++i) {
      const auto p = std::uint64_t{0xD2511F53} * n.of[0][i];
      const auto q = std::uint64_t{0xCD9E8D57} * n.of[2][i];
      n.of[0][i] = static_cast<std::uint32_t>(q >> 32) ^ n.of[1][i] ^ key.first;
      n.of[2][i] =
        static_cast<std::uint32_t>(p >> 32) ^ n.of[3][i] ^ key.second;
      n.of[1][i] = static_cast<std::uint32_t>(q);
      n.of[3][i] = static_cast<std::uint32_t>(p);
    }
    key.first += 0x9E3779B9;
    key.second += 0xBB67AE85;
  }
  return n;
}

}  // namespace

void fill_mask(const at::Tensor& mask, const philox_stream& stream,
               std::uint32_t threshold) {
  auto* to = mask.mutable_data_ptr<std::uint8_t>();
  const auto count = mask.numel();
  const auto groups = (count + philox_group - 1) / philox_group;
  at::parallel_for(0, groups, 256, [&](std::int64_t begin, std::int64_t end) {
    for (auto g = begin; g < end; ++g) {
      const auto numbers = numbers_of(stream, g);
      const auto* number = &numbers.of[0][0];
      const auto left = std::min(philox_group, count - g * philox_group);
      for (std::int64_t i = 0; i < left; ++i)
        to[g * philox_group + i] = number[i] >= threshold;
    }
  });
}

namespace {

/// A contiguous uint8 mask.
at::Tensor mask_like(const at::Tensor& x, double p, random_draws& draws) {
  auto mask = at::empty(x.sizes(), x.options().dtype(at::kByte));
  const auto stream = draws.next();
  const auto threshold = static_cast<std::uint32_t>(
    std::min(std::round(std::ldexp(p, 32)), 0x1p32 - 1));
  if (draws.key.defined() && !draws.device)
    throw error(error_code::invalid_argument,
                "only a device reads a recorded step's keys of random numbers");
  if (draws.device)
    draws.device->hardware()->kernels().fill_mask(mask, stream, threshold,
                                                  draws.key);
  else
    fill_mask(mask, stream, threshold);
  return mask;
}

/// x mask scale. An element that is not finite stays so where it is dropped.
at::Tensor masked(const at::Tensor& x, const at::Tensor& mask, double scale,
                  bool on_host) {
  if (!on_host || x.scalar_type() != at::kFloat)
    return x.mul(mask.to(x.scalar_type())).mul(scale);
  const auto dense = x.contiguous();
  auto y = at::empty_like(dense);
  const auto* from = dense.const_data_ptr<float>();
  const auto* keeps = mask.const_data_ptr<std::uint8_t>();
  auto* to = y.mutable_data_ptr<float>();
  const auto by = static_cast<float>(scale);
  at::parallel_for(0, x.numel(), 1 << 14,
                   [&](std::int64_t begin, std::int64_t end) {
                     for (auto i = begin; i < end; ++i)
                       to[i] = from[i] * (static_cast<float>(keeps[i]) * by);
                   });
  return y;
}

struct dropout_function : torch::autograd::Function<dropout_function> {
  static at::Tensor forward(torch::autograd::AutogradContext* context,
                            const at::Tensor& x, const at::Tensor& mask,
                            double scale, bool on_host) {
    context->save_for_backward({mask});
    context->saved_data["scale"] = scale;
    context->saved_data["on_host"] = on_host;
    return masked(x, mask, scale, on_host);
  }
  static torch::autograd::variable_list backward(
    torch::autograd::AutogradContext* context,
    const torch::autograd::variable_list& gradients) {
    const auto mask = context->get_saved_variables().at(0);
    return {masked(gradients[0], mask, context->saved_data["scale"].toDouble(),
                   context->saved_data["on_host"].toBool()),
            {},
            {},
            {}};
  }
};

philox_key draw_key(std::uint64_t seed, std::int64_t step,
                    std::int64_t microbatch) {
  const auto words = philox(counter_of(step, microbatch), key_of(seed));
  return {words.x, words.y};
}

}  // namespace

philox_stream random_draws::next() {
  return {
    key.defined() ? philox_key{} : draw_key(seed, step, microbatch),
    static_cast<std::uint32_t>(slice) << 16 | static_cast<std::uint32_t>(layer),
    drawn++};
}

at::Tensor draw_keys(std::uint64_t seed, std::int64_t step, std::int64_t first,
                     std::int64_t count) {
  auto keys = at::empty({count, 2}, at::kInt);
  auto* word = keys.mutable_data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    const auto key = draw_key(seed, step, first + i);
    *word++ = static_cast<std::int32_t>(key.first);
    *word++ = static_cast<std::int32_t>(key.second);
  }
  return keys;
}

at::Tensor dropout(const at::Tensor& x, double p) {
  if (!(p >= 0 && p <= 1))
    fail(error_code::invalid_argument,
         "the probability of dropout is {}; use a number from 0 to 1", p);
  auto* draws = current_draws();
  if (draws == nullptr || p == 0)
    return x;
  if (p == 1)
    return x * 0;
  const auto scale = 1 / (1 - p);
  return dropout_function::apply(x, mask_like(x, p, *draws), scale,
                                 draws->device == nullptr);
}

at::Generator op_generator() {
  auto* draws = current_draws();
  if (draws == nullptr)
    throw error(error_code::invalid_argument,
                "op_generator() is for forwards of training; elsewhere use a "
                "generator of your own");
  if (draws->key.defined())
    throw error(error_code::invalid_argument,
                "the model draws random numbers on the host (op_generator), "
                "which a recorded graph would repeat in each step; turn "
                "cuda_graphs off");
  return generator_of(draws->next().block(0));
}

at::Generator generator_at(std::uint64_t seed, std::int64_t index) {
  return generator_of(philox(counter_of(index, 0), key_of(seed)));
}

namespace {

std::string*& watched() {
  static thread_local std::string* first = nullptr;
  return first;
}

/// Whether an operator's own dropout, as fused attention has one, is off.
bool drops_nothing(const c10::FunctionSchema& schema,
                   c10::ArrayRef<const c10::IValue> inputs) {
  for (const auto* name : {"dropout_p", "dropout"})
    if (const auto at = schema.argumentIndexWithName(name);
        at && static_cast<std::size_t>(*at) < inputs.size()
        && inputs[static_cast<std::size_t>(*at)].isDouble())
      return inputs[static_cast<std::size_t>(*at)].toDouble() == 0;
  return false;
}

/// Random operators take a generator, or draw from LibTorch's. A composite
/// operator does not count, as those that it calls do.
bool draws_from_shared(const at::RecordFunction& call) {
  const auto& name = call.operator_name();
  if (!name)
    return false;
  const auto op = c10::Dispatcher::singleton().findOp(*name);
  return op && op->hasTag(at::Tag::nondeterministic_seeded)
         && !op->hasKernelForDispatchKey(
           c10::DispatchKey::CompositeImplicitAutograd)
         && !drops_nothing(op->schema(), call.inputs())
         && std::ranges::none_of(call.inputs(), [](const auto& input) {
              return input.isGenerator();
            });
}

std::unique_ptr<at::ObserverContext> note_draw(const at::RecordFunction& call) {
  if (auto* first = watched();
      first && first->empty() && draws_from_shared(call))
    *first = call.name();
  return nullptr;
}

}  // namespace

draw_watch::draw_watch()
  : handle_(at::addThreadLocalCallback(
    at::RecordFunctionCallback(note_draw).needsInputs(true).scopes(
      {at::RecordScope::FUNCTION}))) {
  watched() = &first_;
}

draw_watch::~draw_watch() {
  watched() = nullptr;
  at::removeCallback(handle_);
}

}  // namespace troupe
