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

  static values at_most(values x, float limit) {
    return select(x < limit, x, values{} + limit);
  }

  /// 1 / (1 + e^-x), and that of -x, which is 1 less it.
  struct sigmoids {
    explicit sigmoids(values x) {
      const values e = exponential(-x);
      const values inverse = 1.0f / (e + 1.0f);
      const words is_zero = x < -87.0f;  // also where e^-x is none
      of = select(is_zero, values{}, inverse);
      of_negated = select(is_zero, values{} + 1.0f, e * inverse);
    }
    values of, of_negated;
  };

  /// P(X <= -t) = e^(-t^2 / 2) p(q) / (t + 3), q = (t - 3) / (t + 3), within
  /// 4e-8 of it. The square is exact: that of t's high bits, and the rest.
  /// `share` of NaN is some number, as x is multiplied by it.
  struct gelu {
    explicit gelu(values x) {
      const values t = at_most(
        reinterpret_cast<values>(reinterpret_cast<words>(x) & 0x7FFFFFFF),
        13.25f);
      const values high =
        reinterpret_cast<values>(reinterpret_cast<words>(t) & ~0xFFF);
      exponential_ =
        exponential(high * high * -0.5f, (t - high) * (t + high) * -0.5f);
      const values inverse = 1.0f / (t + 3.0f);
      const values q = 1.0f - inverse * 6.0f;
      const values square = q * q;
      const values first = q * -5.0933224e-1f + 7.2908366e-1f;
      const values second = q * -4.7257300e-2f + 2.3001926e-1f;
      const values third = q * 6.9299038e-3f + -1.0479481e-2f;
      const values last =
        square * -2.7260147e-4f + (q * -9.1202790e-4f + 1.0775714e-3f);
      const values p =
        (last * square + third) * (square * square) + (second * square + first);
      const values tail = exponential_ * (p * inverse);
      share = select(x < 0.0f, tail, 1.0f - tail);
    }
    values slope(values x) const {
      return share + x * (exponential_ * 0.39894228f);
    }

    values share;

   private:
    values exponential_;
  };

  /// sigmoid(2 u), as (1 + tanh(u)) / 2 is; 2 u = x (linear + cubic x^2).
  struct gelu_tanh {
    explicit gelu_tanh(values x)
      : square_(at_most(x * x, 1e4f)),
        sigmoid_(x * (square_ * cubic + linear)),
        share(sigmoid_.of) {}
    /// In this order, no product of a finite x overflows.
    values slope(values x) const {
      return share
             + (x * share)
                 * (sigmoid_.of_negated * (square_ * (3 * cubic) + linear));
    }

   private:
    static constexpr float linear = 1.5957691f, cubic = 0.071354814f;
    values square_;
    sigmoids sigmoid_;

   public:
    values share;
  };

  struct silu {
    explicit silu(values x) : sigmoid_(x), share(sigmoid_.of) {}
    values slope(values x) const {
      return share * (x * sigmoid_.of_negated + 1.0f);
    }

   private:
    sigmoids sigmoid_;

   public:
    values share;
  };

  template <class Activation>
  struct functions {
    template <class T>
    static void forward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      base::store(all.output + i, x * Activation(x).share);
    }
    template <class T>
    static void backward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      base::store(all.of_x + i,
                  base::load(all.gradient + i) * Activation(x).slope(x));
    }
    template <class T>
    static void gated_forward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      base::store(all.output + i,
                  x * Activation(x).share * base::load(all.factor + i));
    }
    template <class T>
    static void gated_backward(const activation_call<T>& all, size i) {
      const auto x = base::load(all.x + i);
      const auto gradient = base::load(all.gradient + i);
      const Activation found(x);
      base::store(all.of_x + i,
                  gradient * base::load(all.factor + i) * found.slope(x));
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
