#pragma once

#include "troupe/engine/fused/layer_kernels.hpp"
#include "troupe/engine/fused/row_code.hpp"

namespace troupe::fused {

/// The code of rotations with vectors of that many bytes.
template <int Bytes>
class rotary_code : row_code<Bytes> {
  using base = row_code<Bytes>;
  using size = typename base::size;
  using base::for_each;

  template <class T>
  static void rotate_head(const rotation_call<T>& all, const T* x, T* output,
                          size position) {
    const auto pairs = all.pairs;
    const auto* cosines = all.cosines + position * pairs;
    const auto* sines = all.sines + position * pairs;
    const float sign = all.inverse ? -1.0f : 1.0f;
    for_each(pairs, [&](auto at, auto) {
      const auto a = at.load(x), b = at.load(x + pairs);
      const auto cosine = at.load(cosines), sine = at.load(sines) * sign;
      at.store(output, a * cosine - b * sine);
      at.store(output + pairs, b * cosine + a * sine);
    });
    for (size i = 2 * pairs; i < all.width; ++i)
      output[i] = x[i];
  }

  template <class T>
  static void rotate(const rotation_call<T>& all, size first, size end) {
    for (auto place = first; place < end; ++place) {
      const auto row = place / all.positions, position = place % all.positions;
      const auto* x = all.x + row * all.row_step + position * all.position_step;
      auto* output = all.output + place * all.heads * all.width;
      for (size head = 0; head < all.heads; ++head)
        rotate_head(all, x + head * all.head_step, output + head * all.width,
                    position);
    }
  }

 public:
  template <class T>
  static constexpr void set(layer_functions<T>& to) {
    to.rotate = rotate<T>;
  }
};

}  // namespace troupe::fused
