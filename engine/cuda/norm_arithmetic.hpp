#pragma once

#include <cstdint>

// The arithmetic of LayerNorm and RMSNorm on a GPU, as plain C++17 without
// LibTorch: nvcc compiles it for the device, and the tests compile it for the
// host. A team of threads, a block or one of its warps, takes a row at a time;
// each thread takes up to `Chunks` groups of four adjacent columns of it, and
// keeps them in registers. All in fp32. Everything is constexpr, so that
// kernels can call it.
namespace troupe {

/// How a team divides a row: chunk c of thread t is group c * threads + t of
/// four columns.
struct norm_cut {
  int threads = 32;  // a power of two
  int chunks = 1;    // 1 or 2; 0: the kernels don't take such rows
  int teams = 1;     // of so many threads in a block, each with its own rows
};

/// Two chunks where that keeps four warps busy, so that each thread has several
/// loads on the way; more would not fit into registers. Widths are multiples of
/// four, up to 8,192.
constexpr norm_cut cut_norm_row(std::int64_t width) {
  const auto groups = width / 4;
  if (width <= 0 || width % 4 != 0 || groups > 2048)
    return {32, 0};
  const int chunks = groups <= 128 ? 1 : 2;
  int threads = 32;
  while (threads * chunks < groups)
    threads *= 2;
  return {threads, chunks, threads == 32 ? 8 : 1};
}

/// Four adjacent values.
struct four_values {
  float v[4];
};

/// The sums that a row's threads join in the backward pass.
struct norm_sums {
  float gradients = 0;  // of the outputs' gradients times the weight
  float products = 0;   // ... times the normalised value, too
};

constexpr norm_sums joined(const norm_sums& a, const norm_sums& b) {
  return {a.gradients + b.gradients, a.products + b.products};
}
constexpr float joined(float a, float b) {
  return a + b;
}
constexpr four_values joined(const four_values& a, const four_values& b) {
  return {{a.v[0] + b.v[0], a.v[1] + b.v[1], a.v[2] + b.v[2], a.v[3] + b.v[3]}};
}

/// A thread's values of a row; those beyond the row's end are not there.
template <int Chunks>
struct norm_share {
  four_values x[Chunks] = {};
  bool has[Chunks] = {};

  constexpr float sum() const {
    float all = 0;
    for (int c = 0; c < Chunks; ++c)
      if (has[c])
        all += (x[c].v[0] + x[c].v[1]) + (x[c].v[2] + x[c].v[3]);
    return all;
  }

  /// The squared distances from the mean, which is 0 for RMSNorm.
  constexpr float squares(float mean) const {
    float all = 0;
    for (int c = 0; c < Chunks; ++c) {
      if (!has[c])
        continue;
      for (int i = 0; i < 4; ++i) {
        const auto distance = x[c].v[i] - mean;
        all += distance * distance;
      }
    }
    return all;
  }

  /// The output of a chunk: weight and bias are those of its columns.
  constexpr four_values normalised(int c, float mean, float scale,
                                   const four_values& weight,
                                   const four_values& bias) const {
    four_values result{};
    for (int i = 0; i < 4; ++i)
      result.v[i] = (x[c].v[i] - mean) * scale * weight.v[i] + bias.v[i];
    return result;
  }
};

/// A thread's part of the backward pass: the sums over rows of the gradients of
/// its columns' weights and biases.
template <int Chunks>
struct norm_backward_share {
  four_values weights[Chunks] = {};
  four_values biases[Chunks] = {};

  /// Takes a row's output gradients: adds to the columns' sums, leaves
  /// gradients times weight in `gradients`, and normalised values in `row.x`.
  constexpr norm_sums take(norm_share<Chunks>& row,
                           four_values (&gradients)[Chunks],
                           const four_values (&weight)[Chunks], float mean,
                           float scale) {
    norm_sums all;
    for (int c = 0; c < Chunks; ++c) {
      if (!row.has[c])
        continue;
      for (int i = 0; i < 4; ++i) {
        const auto normalised = (row.x[c].v[i] - mean) * scale;
        const auto gradient = gradients[c].v[i];
        weights[c].v[i] += gradient * normalised;
        biases[c].v[i] += gradient;
        row.x[c].v[i] = normalised;
        gradients[c].v[i] = gradient * weight[c].v[i];
        all = joined(all, {gradients[c].v[i], gradients[c].v[i] * normalised});
      }
    }
    return all;
  }
};

/// The inputs' gradients of a chunk, of what `take` left; `means`: the row's
/// sums divided by its width, of which RMSNorm has no `gradients`.
constexpr four_values norm_input_gradients(const four_values& normalised,
                                           const four_values& gradients,
                                           const norm_sums& means, float scale,
                                           const four_values& added) {
  four_values result{};
  for (int i = 0; i < 4; ++i)
    result.v[i] =
      scale
        * (gradients.v[i] - means.gradients - normalised.v[i] * means.products)
      + added.v[i];
  return result;
}

}  // namespace troupe
