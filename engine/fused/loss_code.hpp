#pragma once

#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/row_code.hpp"

namespace troupe::fused {

/// The code of cross entropy with vectors of that many bytes.
template <int Bytes>
class loss_code : row_code<Bytes> {
  using base = row_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using base::exponential;
  using base::for_each;
  using base::lanes;
  using base::parts;
  using base::select;

  /// The largest value; NaN are left out.
  template <class T>
  static float greatest_of(const T* row, size width) {
    values most[parts];
    for (auto& each : most)
      each = values{} - __builtin_inff();
    size i = 0;
    for (; i + parts * lanes <= width; i += parts * lanes)
      for (int k = 0; k < parts; ++k) {
        const auto x = base::load(row + i + k * lanes);
        most[k] = select(x > most[k], x, most[k]);
      }
    float result = -__builtin_inff();
    for (const auto& each : most)
      for (size k = 0; k < lanes; ++k)
        result = each[k] > result ? each[k] : result;
    for (; i < width; ++i)
      if (const float x = base::read(row[i]); x > result)
        result = x;
    return result;
  }

  /// Of the sum of exponentials of what is left of the row's values if `most`
  /// is subtracted.
  template <class T>
  static float logarithm_of(const T* row, size width, float most) {
    values sums[parts]{};
    for_each(width, [&](auto at, auto part) {
      sums[part] += at.only(exponential(at.load(row) - most));
    });
    return __builtin_logf(base::total_of_parts(sums));
  }

  template <class T>
  static void losses(const cross_entropy_call<T>& all, size first, size end) {
    for (auto row = first; row < end; ++row) {
      const auto* x = all.logits + row * all.width;
      const auto target = all.targets[row];
      const float most = greatest_of(x, all.width);
      const float logarithm = logarithm_of(x, all.width, most);
      all.norms[2 * row] = most;
      all.norms[2 * row + 1] = logarithm;
      all.losses[row] = target == all.ignored
                          ? 0.0f
                          : logarithm - (base::read(x[target]) - most);
    }
  }

  template <class T>
  static void gradients(const cross_entropy_call<T>& all, size first,
                        size end) {
    for (auto row = first; row < end; ++row) {
      auto* x = all.logits + row * all.width;
      const auto target = all.targets[row];
      const bool counts = target != all.ignored;
      const float most = all.norms[2 * row], logarithm = all.norms[2 * row + 1];
      const float own = counts ? base::read(x[target]) : 0.0f;
      for_each(all.width, [&](auto at, auto) {
        const values share = exponential((at.load(x) - most) - logarithm);
        at.store(x, counts ? share * all.scale : values{});
      });
      if (counts)
        base::set(x[target], (__builtin_expf((own - most) - logarithm) - 1.0f)
                               * all.scale);
    }
  }

 public:
  template <class T>
  static constexpr void set(layer_functions<T>& to) {
    to.losses = losses<T>;
    to.loss_gradients = gradients<T>;
  }
};

}  // namespace troupe::fused
