// Attention, products, norms and activations of troupe::fused, by each
// instruction set, beside LibTorch's operators: they alternate in one run on
// one thread.
//   fused [--rounds N] [--only attention|products|layers]
//   fused --cuda|--dry-run [--rounds N] [--json]
// Prints Markdown tables: times of the median round, of attention those of a
// forward with its backward. --cuda: instead the functions with kernels for
// GPUs, on the first one; --dry-run: that small, on the CPU.

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/rms_norm.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "on_gpu.hpp"
#include "troupe/bench/measuring.hpp"
#include "troupe/engine/device/libtorch_settings.hpp"
#include "troupe/engine/device/matrix_product.hpp"
#include "troupe/engine/fused/activation.hpp"
#include "troupe/engine/fused/attention.hpp"
#include "troupe/engine/fused/attention_kernels.hpp"
#include "troupe/engine/fused/column_sums.hpp"
#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/norm.hpp"

using namespace troupe;

namespace {

struct shape {
  const char* name;
  std::int64_t rows, positions, heads, size;
};

constexpr shape shapes[]{{"small", 1, 32, 4, 16},
                         {"medium", 4, 128, 8, 32},
                         {"GPT-2", 1, 1024, 12, 64},
                         {"long", 1, 4096, 4, 64}};

at::Tensor of_libtorch(const at::Tensor& projection) {
  const auto parts = projection.unbind(2);
  return at::scaled_dot_product_attention(
           parts[0].transpose(1, 2), parts[1].transpose(1, 2),
           parts[2].transpose(1, 2), {}, 0.0, /*is_causal=*/true)
    .transpose(1, 2)
    .contiguous();
}

at::Tensor of_troupe(const at::Tensor& projection) {
  return fused::self_attention(projection);
}

using function = at::Tensor (*)(const at::Tensor&);

double milliseconds_of(function what, const at::Tensor& projection,
                       const at::Tensor& of_output) {
  using steady = std::chrono::steady_clock;
  const auto began = steady::now();
  const auto output = what(projection);
  torch::autograd::grad({output}, {projection}, {of_output});
  return std::chrono::duration<double, std::milli>(steady::now() - began)
    .count();
}

void measure(const shape& s, at::ScalarType type, int rounds) {
  const auto projection = at::randn({s.rows, s.positions, 3, s.heads, s.size})
                            .to(type)
                            .requires_grad_();
  const auto of_output =
    at::randn({s.rows, s.positions, s.heads, s.size}).to(type);
  std::map<std::string, std::vector<double>> times;
  const auto note = [&](const std::string& name, function what) {
    times[name].push_back(milliseconds_of(what, projection, of_output));
  };
  for (int i = 0; i < rounds + 1; ++i) {
    if (i == 1)
      times.clear();  // what the first round made
    note("LibTorch", of_libtorch);
    for (const auto* kernels : fused::usable_attention()) {
      fused::use_attention(kernels);
      note(kernels->name, of_troupe);
    }
  }
  const auto base = median(times["LibTorch"]);
  std::string cells;
  for (const auto* kernels : fused::usable_attention()) {
    const auto own = median(times[kernels->name]);
    cells += fmt::format(" {:.3f} | {:.2f} x |", own, base / own);
  }
  fmt::print("| {} | {} | {} x {} x {} x {} | {:.3f} |{}\n", s.name,
             type == at::kFloat ? "fp32" : "bf16", s.rows, s.positions, s.heads,
             s.size, base, cells);
}

/// The three products of a linear layer: its output, and the gradients of its
/// input and, added to what is there, of its weight.
struct linear_products {
  at::Tensor x, weight, bias, of_output, of_weight;

  void by_libtorch() {
    at::linear(x, weight, bias);
    of_output.mm(weight);
    of_weight.addmm_(of_output.t(), x);
  }
  void by_troupe() {
    linear_product(x, weight, bias);
    matrix_product(of_output, weight);
    add_matrix_product(of_weight, of_output.t(), x, at::kFloat);
  }
};

void measure_products(std::int64_t rows, std::int64_t inputs,
                      std::int64_t outputs, int rounds) {
  using steady = std::chrono::steady_clock;
  constexpr int repeats = 20;
  linear_products all{at::randn({rows, inputs}), at::randn({outputs, inputs}),
                      at::randn({outputs}), at::randn({rows, outputs}),
                      at::zeros({outputs, inputs})};
  std::vector<double> theirs, ours;
  const auto note = [&](std::vector<double>& times, auto what) {
    const auto began = steady::now();
    for (int i = 0; i < repeats; ++i)
      (all.*what)();
    times.push_back(
      std::chrono::duration<double, std::micro>(steady::now() - began).count()
      / repeats);
  };
  for (int i = 0; i < rounds; ++i) {
    note(theirs, &linear_products::by_libtorch);
    note(ours, &linear_products::by_troupe);
  }
  const auto operations = 6e-3 * static_cast<double>(rows * inputs * outputs);
  fmt::print("| {} | {} | {} | {:.1f} | {:.1f} | {:.2f} x | {:.0f} |\n", rows,
             inputs, outputs, median(theirs), median(ours),
             median(theirs) / median(ours), operations / median(ours));
}

void print_products(int rounds) {
  const at::NoGradGuard no_grad;
  fmt::print(
    "\n| rows | inputs | outputs | LibTorch, us | troupe, us | faster by | "
    "GFLOP/s |\n|---|---|---|---|---|---|---|\n");
  for (const auto& [rows, inputs, outputs] :
       std::initializer_list<std::array<std::int64_t, 3>>{{32, 64, 64},
                                                          {32, 64, 192},
                                                          {32, 64, 256},
                                                          {128, 64, 256},
                                                          {64, 256, 256},
                                                          {128, 256, 256},
                                                          {128, 256, 1024},
                                                          {512, 256, 1024}})
    measure_products(rows, inputs, outputs, rounds);
}

/// Inputs, all of which want gradients; the first is x.
using inputs = std::vector<at::Tensor>;

struct layer_case {
  const char* name;
  std::vector<std::int64_t> parameters;  // 1: as x; 0: [width]
  at::Tensor (*theirs)(const inputs&);
  at::Tensor (*ours)(const inputs&);
};

/// `theirs` and `ours` of an activation.
template <fused::activation Which>
at::Tensor activated(const inputs& all) {
  return fused::activated(all[0], Which);
}

const std::vector<layer_case> layer_cases{
  {"layer norm",
   {0, 0},
   [](const inputs& all) {
     return at::layer_norm(all[0], all[1].sizes(), all[1], all[2]);
   },
   [](const inputs& all) { return fused::layer_norm(all[0], all[1], all[2]); }},
  {"RMS norm",
   {0},
   [](const inputs& all) {
     return at::rms_norm(all[0], all[1].sizes(), all[1], 1e-5);
   },
   [](const inputs& all) { return fused::rms_norm(all[0], all[1]); }},
  {"GELU",
   {},
   [](const inputs& all) { return at::gelu(all[0]); },
   activated<fused::activation::gelu>},
  {"GELU by tanh",
   {},
   [](const inputs& all) { return at::gelu(all[0], "tanh"); },
   activated<fused::activation::gelu_tanh>},
  {"SiLU",
   {},
   [](const inputs& all) { return at::silu(all[0]); },
   activated<fused::activation::silu>},
  {"SwiGLU",
   {1},
   [](const inputs& all) { return at::silu(all[0]) * all[1]; },
   [](const inputs& all) {
     return fused::gated(all[0], all[1], fused::activation::silu);
   }},
  {"GEGLU",
   {1},
   [](const inputs& all) { return at::gelu(all[0]) * all[1]; },
   [](const inputs& all) {
     return fused::gated(all[0], all[1], fused::activation::gelu);
   }},
};

struct layer_shape {
  std::int64_t rows, width;
  at::ScalarType type;
};

double microseconds_of(int repeats, const std::function<void()>& work) {
  using steady = std::chrono::steady_clock;
  const auto began = steady::now();
  for (int i = 0; i < repeats; ++i)
    work();
  return std::chrono::duration<double, std::micro>(steady::now() - began)
           .count()
         / repeats;
}

using timed_work = std::function<void(bool ours)>;

/// The instruction sets whose kernels some machine uses.
std::vector<const fused::layer_kernels*> measured_layers() {
  auto all = fused::usable_layers();
  std::erase(all, &fused::plain_layers);
  return all;
}

/// Prints a line of medians of LibTorch's and each instruction set's.
void measure_layers(const std::string& name, const layer_shape& s, int rounds,
                    const timed_work& work) {
  const auto repeats = static_cast<int>(
    std::clamp<std::int64_t>(200000 / (s.rows * s.width), 1, 50));
  std::vector<double> theirs;
  std::map<std::string, std::vector<double>> ours;
  for (int i = 0; i < rounds; ++i) {
    theirs.push_back(microseconds_of(repeats, [&] { work(false); }));
    for (const auto* kernels : measured_layers()) {
      fused::use_layers(kernels);
      ours[kernels->name].push_back(
        microseconds_of(repeats, [&] { work(true); }));
    }
  }
  const auto base = median(theirs);
  std::string cells;
  for (const auto* kernels : measured_layers()) {
    const auto own = median(ours[kernels->name]);
    cells += fmt::format(" {:.1f} | {:.2f} x |", own, base / own);
  }
  fmt::print("| {} | {} | {} x {} | {:.1f} |{}\n", name,
             s.type == at::kFloat ? "fp32" : "bf16", s.rows, s.width, base,
             cells);
}

void measure_layer(const layer_case& layer, const layer_shape& s, int rounds) {
  const auto random = [&](at::IntArrayRef sizes) {
    return at::randn(sizes).to(s.type);
  };
  inputs all{random({s.rows, s.width})};
  for (const auto is_as_x : layer.parameters)
    all.push_back(is_as_x ? random({s.rows, s.width}) : random({s.width}));
  const auto of_output = random({s.rows, s.width});
  measure_layers(layer.name, s, rounds,
                 [&](bool ours) { (ours ? layer.ours : layer.theirs)(all); });
  for (auto& each : all)
    each.requires_grad_();
  measure_layers(std::string(layer.name) + ", with backward", s, rounds,
                 [&](bool ours) {
                   const auto y = (ours ? layer.ours : layer.theirs)(all);
                   torch::autograd::grad({y}, all, {of_output});
                 });
}

void measure_sums(const layer_shape& s, int rounds) {
  const auto rows = at::randn({s.rows, s.width}).to(s.type);
  auto sum = at::zeros({s.width});
  measure_layers("sum of rows, added", s, rounds, [&](bool ours) {
    if (ours)
      fused::add_column_sums(sum, rows, at::kFloat);
    else
      sum.add_(rows.sum(0, false, at::kFloat));
  });
}

void print_layers(int rounds) {
  std::string names, lines;
  for (const auto* kernels : measured_layers()) {
    names += fmt::format(" {}, us | faster by |", kernels->name);
    lines += "---|---|";
  }
  fmt::print(
    "\n| function | dtype | shape | LibTorch, us |{}\n|---|---|---|---|{}\n",
    names, lines);
  for (const auto& s :
       {layer_shape{32, 64, at::kFloat}, layer_shape{512, 256, at::kFloat},
        layer_shape{8192, 1024, at::kFloat},
        layer_shape{512, 256, at::kBFloat16}}) {
    for (const auto& layer : layer_cases)
      measure_layer(layer, s, rounds);
    measure_sums(s, rounds);
  }
}

void print_attention(int rounds) {
  std::string names, lines;
  for (const auto* kernels : fused::usable_attention()) {
    names += fmt::format(" {}, ms | faster by |", kernels->name);
    lines += "---|---|";
  }
  fmt::print(
    "| shape | dtype | rows x positions x heads x size | LibTorch, ms "
    "|{}\n|---|---|---|---|{}\n",
    names, lines);
  for (const auto type : {at::kFloat, at::kBFloat16})
    for (const auto& s : shapes)
      measure(s, type, rounds);
}

}  // namespace

int main(int argc, char** argv) {
  int rounds = 30;
  std::string only;
  CLI::App app("functions for layers and small products beside LibTorch's");
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  app.add_option("--only", only)
    ->check(CLI::IsMember({"attention", "products", "layers"}));
  bool cuda = false;
  gpu_measurement on_gpu;
  app.add_flag("--cuda", cuda, "what has kernels for GPUs, on the first one");
  app.add_flag("--dry-run", on_gpu.dry_run, "that, but small and on the CPU");
  app.add_flag("--json", on_gpu.json, "of these two: JSON, not a table");
  CLI11_PARSE(app, argc, argv);
  return run_benchmark([&] {
    if (cuda || on_gpu.dry_run) {
      on_gpu.rounds = rounds;
      return measure_on_gpu(on_gpu);
    }
    const compute_scope computing(1);
    const auto wanted = [&](const char* part) {
      return only.empty() || only == part;
    };
    if (wanted("attention"))
      print_attention(rounds);
    if (wanted("products"))
      print_products(rounds);
    if (wanted("layers"))
      print_layers(rounds);
  });
}
