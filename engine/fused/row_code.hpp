#pragma once

#include <cstdint>
#include <utility>

#include "troupe/engine/device/vector_code.hpp"

namespace troupe::fused {

/// Loops over the elements of a row in vectors of that many bytes.
template <int Bytes>
class row_code : public vector_code<Bytes> {
  using base = vector_code<Bytes>;

 public:
  using size = typename base::size;
  using values = typename base::values;
  using words = typename base::words;
  using base::lanes;

  /// Sums run in as many vectors at once.
  static constexpr int parts = 4;

  static float total_of_parts(const values (&sums)[parts]) {
    return base::total_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
  }

  /// A whole vector of each row that is read or written, from an element on.
  struct whole {
    size first;

    template <class T>
    values load(const T* row) const {
      return base::load(row + first);
    }
    template <class T>
    void store(T* row, values x) const {
      base::store(row + first, x);
    }
    static values only(values x) { return x; }
    template <class T>
    void prefetch(const T* row) const {
      __builtin_prefetch(row + first);
    }
  };

  /// The last elements of a row, followed by zeros.
  struct rest {
    size first, count;

    template <class T>
    values load(const T* row) const {
      T padded[lanes]{};
      for (size i = 0; i < count; ++i)
        padded[i] = row[first + i];
      return base::load(padded);
    }
    template <class T>
    void store(T* row, values x) const {
      T padded[lanes];
      base::store(padded, x);
      for (size i = 0; i < count; ++i)
        row[first + i] = padded[i];
    }
    values only(values x) const {
      words present;
      for (size i = 0; i < lanes; ++i)
        present[i] = i < count ? -1 : 0;
      return base::select(present, x, values{});
    }
    template <class T>
    static void prefetch(const T*) {}
  };

  /// Calls visit(whole or rest, the part of sums to use) for all elements.
  template <class Visit>
  static void for_each(size width, const Visit& visit) {
    size i = 0;
    for (; i + parts * lanes <= width; i += parts * lanes) {
      visit(whole{i}, 0);
      visit(whole{i + lanes}, 1);
      visit(whole{i + 2 * lanes}, 2);
      visit(whole{i + 3 * lanes}, 3);
    }
    for (; i + lanes <= width; i += lanes)
      visit(whole{i}, 0);
    if (i < width)
      visit(rest{i, width - i}, 1);
  }
};

}  // namespace troupe::fused
