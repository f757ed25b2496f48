#pragma once

#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/row_code.hpp"

namespace troupe::fused {

/// The code of activations with vectors of that many bytes. Each is x share(x)
/// of a share from 0 to 1, which has a relative error of a few units of the
/// last place.
template <int Bytes>
class activation_code : row_code<Bytes> {
  using base = row_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using words = typename base::words;
  using base::exponential;
  using base::lanes;
  using base::select;

  struct share_and_slope {
    values share, slope;  // slope: of x share(x)
  };

  /// NaN becomes the limit: x, by which the share is multiplied, is one still.
  static values magnitude_up_to(values x, float limit) {
    const auto magnitude =
      reinterpret_cast<values>(reinterpret_cast<words>(x) & 0x7FFFFFFF);
    return select(magnitude < limit, magnitude, values{} + limit);
  }

  /// The share of |x| subtracted from 1 is that of -|x|, which `small` is.
  static values of_sign(values x, values small) {
    return select(x < 0.0f, small, 1.0f - small);
  }

  /// P(X <= -t) = e^(-t^2 / 2) p(q) / (t + 3), q = (t - 3) / (t + 3), within
  /// 4e-8 of it. The square is exact: that of t's first bits, and the rest.
  struct gelu {
    static share_and_slope of(values x) {
      const values t = magnitude_up_to(x, 13.25f);
      const values first =
        reinterpret_cast<values>(reinterpret_cast<words>(t) & ~0xFFF);
      const values e =
        exponential(first * first * -0.5f, (t - first) * (t + first) * -0.5f);
      const values inverse = 1.0f / (t + 3.0f);
      const values q = (t - 3.0f) * inverse;
      values p = q * -2.7260147e-4f + -9.1202790e-4f;
      p = p * q + 1.0775714e-3f;
      p = p * q + 6.9299038e-3f;
      p = p * q + -1.0479481e-2f;
      p = p * q + -4.7257300e-2f;
      p = p * q + 2.3001926e-1f;
      p = p * q + -5.0933224e-1f;
      p = p * q + 7.2908366e-1f;
      const values share = of_sign(x, e * (p * inverse));
      return {share, share + x * (e * 0.39894228f)};
    }
  };

  /// sigmoid(2 u), as (1 + tanh(u)) / 2 is; 2 u = x (linear + cubic x^2).
  struct gelu_tanh {
    static share_and_slope of(values x) {
      constexpr float linear = 1.5957691f, cubic = 0.071354814f;
      const values t = magnitude_up_to(x, 15.0f);
      const values square = t * t;
      const values e = exponential(-t * (square * cubic + linear));
      const values inverse = 1.0f / (e + 1.0f);
      const values small = e * inverse;
      const values share = of_sign(x, small);
      return {share,
              share + x * (small * inverse) * (square * (3 * cubic) + linear)};
    }
  };

  struct silu {
    static share_and_slope of(values x) {
      const values e = exponential(-magnitude_up_to(x, 100.0f));
      const values inverse = 1.0f / (e + 1.0f);
      const values small = e * inverse;
      const values share = of_sign(x, small);
      return {share, share + x * (small * inverse)};
    }
  };

  template <class Activation>
  struct functions {
    template <class T>
    static void forward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      base::store(all.output + i, x * Activation::of(x).share);
    }
    template <class T>
    static void backward(const activation_call<T>& all, size i) {
      const auto slope = Activation::of(base::load(all.x + i)).slope;
      base::store(all.of_x + i, base::load(all.gradient + i) * slope);
    }
    template <class T>
    static void gated_forward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      base::store(all.output + i,
                  x * Activation::of(x).share * base::load(all.factor + i));
    }
    template <class T>
    static void gated_backward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      const auto gradient = base::load(all.gradient + i);
      const auto found = Activation::of(x);
      base::store(all.of_x + i,
                  gradient * base::load(all.factor + i) * found.slope);
      base::store(all.of_factor + i, gradient * (x * found.share));
    }
  };

  /// The last elements, padded to a vector.
  template <class T>
  class padded {
   public:
    padded(const activation_call<T>& all, size first, size count)
      : all_(all), first_(first), count_(count) {
      copy(all.x, x_);
      copy(all.factor, factor_);
      copy(all.gradient, gradient_);
    }
    activation_call<T> call() {
      return {x_, factor_, gradient_, output_, of_x_, of_factor_};
    }
    void write() const {
      copy_back(output_, all_.output);
      copy_back(of_x_, all_.of_x);
      copy_back(of_factor_, all_.of_factor);
    }

   private:
    void copy(const T* from, T* to) const {
      for (size i = 0; from && i < count_; ++i)
        to[i] = from[first_ + i];
    }
    void copy_back(const T* from, T* to) const {
      for (size i = 0; to && i < count_; ++i)
        to[first_ + i] = from[i];
    }

    const activation_call<T>& all_;
    size first_, count_;
    T x_[lanes]{}, factor_[lanes]{}, gradient_[lanes]{};
    T output_[lanes]{}, of_x_[lanes]{}, of_factor_[lanes]{};
  };

  /// Whole vectors. Not inlined, so that all elements are computed by one copy
  /// of the code, with the same multiply-adds.
  template <class T, auto Function>
  [[gnu::noinline]] static void run_vectors(const activation_call<T>& all,
                                            size first, size end) {
    for (auto i = first; i < end; i += lanes)
      Function(all, i);
  }

  template <class T, auto Function>
  static void run(const activation_call<T>& all, size first, size end) {
    const auto whole = (end - first) / lanes * lanes;
    run_vectors<T, Function>(all, first, first + whole);
    if (first + whole == end)
      return;
    padded<T> rest(all, first + whole, end - first - whole);
    run_vectors<T, Function>(rest.call(), 0, lanes);
    rest.write();
  }

  template <class T, class Activation>
  static constexpr typename layer_functions<T>::of_activation all_of() {
    using of = functions<Activation>;
    return {run<T, &of::template forward<T>>, run<T, &of::template backward<T>>,
            run<T, &of::template gated_forward<T>>,
            run<T, &of::template gated_backward<T>>};
  }

 public:
  template <class T>
  static constexpr void set(layer_functions<T>& to) {
    to.activations[static_cast<int>(activation::gelu)] = all_of<T, gelu>();
    to.activations[static_cast<int>(activation::gelu_tanh)] =
      all_of<T, gelu_tanh>();
    to.activations[static_cast<int>(activation::silu)] = all_of<T, silu>();
  }
};

}  // namespace troupe::fused
