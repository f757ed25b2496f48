#pragma once

#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/row_code.hpp"

namespace troupe::fused {

/// The code of norms and sums of rows with vectors of that many bytes. A row is
/// read from the cache in each pass after the first.
template <int Bytes>
class norm_code : row_code<Bytes> {
  using base = row_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using base::for_each;
  using base::lanes;
  using base::load;
  using base::parts;
  using base::store;
  using base::total_of;

  struct moments {
    float mean, scale;
    float missed;  // by the mean's rounding
  };

  static float inverse_root(float x) { return 1 / __builtin_sqrtf(x); }

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

  template <bool HasMean, class T>
  static moments moments_of(const T* x, size width, float epsilon) {
    const auto count = static_cast<float>(width);
    float mean = 0;
    if constexpr (HasMean) {
      values sums[parts]{};
      for_each(width, [&](auto at, auto part) { sums[part] += at.load(x); });
      mean = base::total_of_parts(sums) / count;
    }
    values sums[parts]{}, squares[parts]{};
    for_each(width, [&](auto at, auto part) {
      const values d = HasMean ? at.only(at.load(x) - mean) : at.load(x);
      if constexpr (HasMean)
        sums[part] += d;
      squares[part] += d * d;
    });
    const auto sum = HasMean ? base::total_of_parts(sums) : 0;
    const auto missed = sum / count;
    const auto variance =
      (base::total_of_parts(squares) - missed * sum) / count + epsilon;
    if (variance >= 1e-30f && variance <= 1e30f)
      return {mean, inverse_root(variance), missed};
    return wide_moments<HasMean>(x, width, epsilon);
  }

  template <bool HasMean, class T>
  static void normalize_row(const norm_call<T>& all, size row) {
    const auto* x = all.x + row * all.width;
    auto* output = all.output + row * all.width;
    const auto found = moments_of<HasMean>(x, all.width, all.epsilon);
    for_each(all.width, [&](auto at, auto) {
      if constexpr (HasMean)
        at.store(output, (at.load(x) - found.mean - found.missed) * found.scale
                             * at.load(all.weight)
                           + at.load(all.bias));
      else
        at.store(output, at.load(x) * found.scale * at.load(all.weight));
    });
    if constexpr (HasMean)
      all.mean[row] = found.mean + found.missed;
    all.scale[row] = found.scale;
  }

  template <class T>
  static void normalize(const norm_call<T>& all, size first, size end) {
    for (auto row = first; row < end; ++row)
      if (all.bias)
        normalize_row<true>(all, row);
      else
        normalize_row<false>(all, row);
  }

  template <bool HasMean, bool Adds, class T>
  static void backward_row(const norm_backward_call<T>& all, size row,
                           float* of_weight, float* of_bias) {
    const auto* x = all.x + row * all.width;
    const auto* gradient = all.gradient + row * all.width;
    const auto* added = Adds ? all.added + row * all.width : nullptr;
    auto* of_x = all.of_x + row * all.width;
    const float mean = HasMean ? all.mean[row] : 0, scale = all.scale[row];
    const auto unit = [&](auto at) -> values {
      return HasMean ? (at.load(x) - mean) * scale : at.load(x) * scale;
    };
    values sums[parts]{}, products[parts]{};
    for_each(all.width, [&](auto at, auto part) {
      const values before = at.load(gradient) * at.load(all.weight);
      if constexpr (HasMean)
        sums[part] += before;
      products[part] += before * unit(at);  // 0 beyond the end
    });
    const auto count = static_cast<float>(all.width);
    const auto sum = HasMean ? base::total_of_parts(sums) / count : 0;
    const auto product = base::total_of_parts(products) / count;
    for_each(all.width, [&](auto at, auto) {
      const values after = at.load(gradient), u = unit(at);
      values d = after * at.load(all.weight);
      if constexpr (HasMean)
        d = d - sum;
      d = (d - u * product) * scale;
      if constexpr (Adds)
        d = d + at.load(added);
      at.store(of_x, d);
      at.store(of_weight, at.load(of_weight) + after * u);
      if constexpr (HasMean)
        at.store(of_bias, at.load(of_bias) + after);
    });
  }

  template <bool HasMean, bool Adds, class T>
  static void backward_rows(const norm_backward_call<T>& all, size first,
                            size end, float* of_weight, float* of_bias) {
    for (size i = 0; i < all.width; ++i)
      of_weight[i] = 0;
    for (size i = 0; HasMean && i < all.width; ++i)
      of_bias[i] = 0;
    for (auto row = first; row < end; ++row)
      backward_row<HasMean, Adds>(all, row, of_weight, of_bias);
  }

  template <class T>
  static void backward(const norm_backward_call<T>& all, size first, size end,
                       float* of_weight, float* of_bias) {
    if (all.mean && all.added)
      backward_rows<true, true>(all, first, end, of_weight, of_bias);
    else if (all.mean)
      backward_rows<true, false>(all, first, end, of_weight, of_bias);
    else if (all.added)
      backward_rows<false, true>(all, first, end, of_weight, of_bias);
    else
      backward_rows<false, false>(all, first, end, of_weight, of_bias);
  }

  /// Rows are added in groups of 8, pair by pair.
  template <class T>
  static void sum_rows(const T* rows, size count, size width, size step,
                       float* sum) {
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
