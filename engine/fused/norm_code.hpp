#pragma once

#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/row_code.hpp"

namespace troupe::fused {

/// The code of norms and sums of rows with vectors of that many bytes. A row is
/// read from the cache in each pass after the first. `flatten`: compilers may
/// otherwise call the body of a loop.
template <int Bytes>
class norm_code : row_code<Bytes> {
  using base = row_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using base::for_each;
  using base::parts;

  struct moments {
    float mean, scale;
    float missed;  // to be added to the mean
  };

  /// Of values whose squares leave the range of fp32.
  template <bool HasMean, class T>
  static moments wide_moments(const T* x, size width, float epsilon) {
    double mean = 0, squares = 0;
    if constexpr (HasMean) {
      for (size i = 0; i < width; ++i)
        mean += base::read(x[i]);
      mean /= static_cast<double>(width);
    }
    for (size i = 0; i < width; ++i) {
      const auto d = base::read(x[i]) - mean;
      squares += d * d;
    }
    const auto variance = squares / static_cast<double>(width) + epsilon;
    return {static_cast<float>(mean),
            static_cast<float>(1 / __builtin_sqrt(variance)), 0};
  }

  /// The mean of the first elements.
  template <class T>
  static float first_mean(const T* x, size width) {
    if (width < 4)
      return base::read(x[0]);
    return ((base::read(x[0]) + base::read(x[1]))
            + (base::read(x[2]) + base::read(x[3])))
           * 0.25f;
  }

  struct distances {
    float variance, missed;
  };

  template <bool HasMean, class T>
  static distances distances_from(float mean, const T* x, size width) {
    const auto share = 1 / static_cast<float>(width);
    values sums[parts]{}, squares[parts]{};
    for_each(width, [&](auto at, auto part) {
      const values d = HasMean ? at.only(at.load(x) - mean) : at.load(x);
      if constexpr (HasMean)
        sums[part] += d;
      squares[part] += d * d;
    });
    const auto missed = HasMean ? base::total_of_parts(sums) * share : 0;
    return {base::total_of_parts(squares) * share - missed * missed, missed};
  }

  /// By distances from the mean of a few values. Where that is far from the
  /// mean of all, so that digits are lost, again from what that has shown.
  template <bool HasMean, class T>
  static moments moments_of(const T* x, size width, float epsilon) {
    auto mean = HasMean ? first_mean(x, width) : 0;
    auto found = distances_from<HasMean>(mean, x, width);
    if (HasMean && found.missed * found.missed > found.variance) {
      mean += found.missed;
      found = distances_from<HasMean>(mean, x, width);
    }
    const auto variance = found.variance + epsilon;
    if (variance >= 1e-30f && variance <= 1e30f)
      return {mean, 1 / __builtin_sqrtf(variance), found.missed};
    return wide_moments<HasMean>(x, width, epsilon);
  }

  template <bool HasMean, class T>
  [[gnu::flatten]] static void normalize_row(const norm_call<T>& all,
                                             size row) {
    const auto width = all.width;
    const auto* x = all.x + row * width;
    auto* output = all.output + row * width;
    const auto *weight = all.weight, *bias = all.bias;
    const auto found = moments_of<HasMean>(x, width, all.epsilon);
    const auto mean = found.mean, scale = found.scale;
    const auto shift = -found.missed * scale;
    for_each(width, [&](auto at, auto) {
      at.prefetch(x + width);  // the next row
      if constexpr (HasMean)
        at.store(output, ((at.load(x) - mean) * scale + shift) * at.load(weight)
                           + at.load(bias));
      else
        at.store(output, at.load(x) * scale * at.load(weight));
    });
    if constexpr (HasMean)
      all.mean[row] = mean + found.missed;
    all.scale[row] = scale;
  }

  template <class T>
  static void normalize(const norm_call<T>& all, size first, size end) {
    for (auto row = first; row < end; ++row)
      if (all.bias)
        normalize_row<true>(all, row);
      else
        normalize_row<false>(all, row);
  }

  template <bool HasMean, class T>
  [[gnu::flatten]] static void backward_row(const norm_backward_call<T>& all,
                                            size row, float* of_weight,
                                            float* of_bias) {
    const auto width = all.width;
    const auto* x = all.x + row * width;
    const auto* gradient = all.gradient + row * width;
    auto* of_x = all.of_x + row * width;
    const auto* weight = all.weight;
    const float mean = HasMean ? all.mean[row] : 0, scale = all.scale[row];
    const auto unit = [&](auto at) -> values {
      return HasMean ? (at.load(x) - mean) * scale : at.load(x) * scale;
    };
    values sums[parts]{}, products[parts]{};
    for_each(width, [&](auto at, auto part) {
      const values before = at.load(gradient) * at.load(weight);
      if constexpr (HasMean)
        sums[part] += before;
      products[part] += before * unit(at);  // 0 beyond the end
    });
    const auto share = 1 / static_cast<float>(width);
    const auto sum = HasMean ? base::total_of_parts(sums) * share : 0;
    const auto product = base::total_of_parts(products) * share;
    for_each(width, [&](auto at, auto) {
      at.prefetch(x + width);
      at.prefetch(gradient + width);
      const values after = at.load(gradient), u = unit(at);
      values d = after * at.load(weight);
      if constexpr (HasMean)
        d = d - sum;
      d = (d - u * product) * scale;
      at.store(of_x, d);
      at.store(of_weight, at.load(of_weight) + after * u);
      if constexpr (HasMean)
        at.store(of_bias, at.load(of_bias) + after);
    });
  }

  template <bool HasMean, class T>
  static void backward_rows(const norm_backward_call<T>& all, size first,
                            size end, float* of_weight, float* of_bias) {
    for (size i = 0; i < all.width; ++i)
      of_weight[i] = 0;
    for (size i = 0; HasMean && i < all.width; ++i)
      of_bias[i] = 0;
    for (auto row = first; row < end; ++row)
      backward_row<HasMean>(all, row, of_weight, of_bias);
  }

  template <class T>
  static void backward(const norm_backward_call<T>& all, size first, size end,
                       float* of_weight, float* of_bias) {
    if (all.mean)
      backward_rows<true>(all, first, end, of_weight, of_bias);
    else
      backward_rows<false>(all, first, end, of_weight, of_bias);
  }

  /// Rows are added in groups of 8, pair by pair.
  template <class T>
  [[gnu::flatten]] static void sum_rows(const T* rows, size count, size width,
                                        size step, float* sum) {
    for (size i = 0; i < width; ++i)
      sum[i] = 0;
    size row = 0;
    for (; row + 8 <= count; row += 8)
      for_each(width, [&](auto at, auto) {
        const auto pair = [&](size i) -> values {
          const auto* first = rows + (row + i) * step;
          return at.load(first) + at.load(first + step);
        };
        at.store(sum,
                 at.load(sum) + ((pair(0) + pair(2)) + (pair(4) + pair(6))));
      });
    for (; row < count; ++row)
      for_each(width, [&](auto at, auto) {
        at.store(sum, at.load(sum) + at.load(rows + row * step));
      });
  }

 public:
  template <class T>
  static constexpr void set(layer_functions<T>& to) {
    to.normalize = normalize<T>;
    to.normalize_backward = backward<T>;
    to.sum_rows = sum_rows<T>;
  }
};

}  // namespace troupe::fused
