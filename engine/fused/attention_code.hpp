#pragma once

#include <cstdint>

#include "troupe/engine/device/vector_code.hpp"
#include "troupe/engine/fused/attention_kernels.hpp"

namespace troupe::fused {

/// The code of attention_kernels with vectors of that many bytes.
///
/// Operands are copied to scratch memory, where products read whole vectors: of
/// keys and values also the transposed, in panels of two vectors of keys. A
/// block of queries has all its scores in scratch memory at once.
template <int Bytes>
class attention_code : vector_code<Bytes> {
  using base = vector_code<Bytes>;
  using size = typename base::size;
  using values = typename base::values;
  using base::exponential;
  using base::lanes;
  using base::least;
  using base::load;
  using base::most;
  using base::multiply;
  using base::panel;
  using base::read;
  using base::round_up;
  using base::select;
  using base::set;
  using base::store;
  using base::sum_of;
  using base::tile;

  static constexpr size block = 64;  // queries

  /// The sizes of one call, and where its parts are in scratch memory.
  struct layout {
    explicit layout(const attention_sizes& sizes)
      : s(sizes),
        width(round_up(sizes.width, lanes)),
        keys(round_up(sizes.keys, panel)),
        row(keys + panel) {}

    /// The number of keys that a query sees, of all if it is beyond the last.
    size seen_by(size query) const {
      return s.causal ? least(s.keys, query + 1 + s.keys - s.queries) : s.keys;
    }
    size scores() const { return block * row; }
    size queries() const { return block * width; }
    size matrix() const { return keys * width; }

    attention_sizes s;
    size width, keys, row;
  };

  /// One head's rows from the first one on.
  template <class T>
  static head_rows<T> rows_of(head_rows<T> all, size head, size first = 0) {
    return {all.data + head * all.head + first * all.row, all.row, 0};
  }

  template <class T>
  static void copy(head_rows<const T> source, size count, size width,
                   size padded, float factor, float* target) {
    for (size i = 0; i < count; ++i) {
      const auto* from = source.data + i * source.row;
      auto* to = target + i * padded;
      for (size j = 0; j < width; ++j)
        to[j] = read(from[j]) * factor;
      for (size j = width; j < padded; ++j)
        to[j] = 0;
    }
  }

  /// Panels of [width, panel]; keys beyond the last are zeros.
  template <class T>
  static void transpose(head_rows<const T> source, const layout& l,
                        float* target) {
    for (size first = 0; first < l.keys; first += panel)
      for (size k = 0; k < panel; ++k) {
        auto* to = target + first * l.s.width + k;
        const bool is_there = first + k < l.s.keys;
        const auto* from =
          source.data + (is_there ? (first + k) * source.row : 0);
        for (size j = 0; j < l.s.width; ++j)
          to[j * panel] = is_there ? read(from[j]) : 0;
      }
  }

  /// A block of queries: where it begins, how many there are, and rounded up.
  struct queries_of {
    size first, count, rows;
  };

  /// Products of the block's rows with all keys (or values) that some query of
  /// a tile sees.
  static void multiply_keys(const layout& l, queries_of q, const float* rows,
                            const float* panels, float* products) {
    for (size k = 0; k < l.seen_by(q.first + q.count - 1); k += panel)
      for (size i = 0; i < q.rows; i += tile)
        if (k < l.seen_by(q.first + i + tile - 1))
          multiply({rows + i * l.width, l.width, 1},
                   {panels + k * l.s.width, panel}, l.s.width,
                   products + i * l.row + k, l.row, panel, false);
  }

  /// Sums over keys of weights times their rows, for each query of a block.
  static void sum_over_keys(const layout& l, queries_of q, const float* weights,
                            const float* rows, float* sums) {
    for (size i = 0; i < q.rows; i += tile)
      multiply({weights + i * l.row, l.row, 1}, {rows, l.width},
               l.seen_by(q.first + i + tile - 1), sums + i * l.width, l.width,
               l.width, false);
  }

  /// Adds to each key's row the sum over queries of weights times their rows.
  static void sum_over_queries(const layout& l, queries_of q,
                               const float* weights, const float* rows,
                               float* sums) {
    for (size k = 0; k < l.seen_by(q.first + q.count - 1); k += tile) {
      const auto sees = k + l.s.queries - l.s.keys - q.first;
      const auto first = l.s.causal ? most(sees, 0) : 0;
      multiply({weights + first * l.row + k, 1, l.row},
               {rows + first * l.width, l.width}, q.count - first,
               sums + k * l.width, l.width, l.width, true);
    }
  }

  /// Where a row's weights end that some product reads: past those of its keys
  /// are zeros.
  static size end_of(size seen) { return round_up(seen + tile, lanes); }

  static void hide(float* scores, size seen) {
    for (size k = seen; k < end_of(seen); ++k)
      scores[k] = -__builtin_inff();
  }

  static queries_of block_at(const layout& l, size first) {
    const auto count = least(block, l.s.queries - first);
    return {first, count, round_up(count, tile)};
  }

  template <class T>
  static void copy_block(const layout& l, queries_of q,
                         head_rows<const T> source, float factor,
                         float* target) {
    copy(rows_of(source, 0, q.first), q.count, l.s.width, l.width, factor,
         target);
    for (size i = q.count * l.width; i < q.rows * l.width; ++i)
      target[i] = 0;
  }

  template <class T>
  static void write(const float* source, const layout& l, size count,
                    float factor, head_rows<T> target) {
    for (size i = 0; i < count; ++i)
      for (size j = 0; j < l.s.width; ++j)
        set(target.data[i * target.row + j], source[i * l.width + j] * factor);
  }

  /// Zeros in the rows of a block that are no queries.
  static void clear_rest(const layout& l, queries_of q, float* weights) {
    for (size i = q.count; i < q.rows; ++i)
      for (size k = 0; k < l.keys; ++k)
        weights[i * l.row + k] = 0;
  }

  /// Exponentials of the scores less the largest; the sum of them.
  static float softmax(float* scores, size seen, float& logarithm) {
    hide(scores, seen);
    values high = values{} - __builtin_inff();
    for (size k = 0; k < seen; k += lanes) {
      const auto x = load(scores + k);
      high = select(x > high, x, high);
    }
    float largest = high[0];
    for (size i = 1; i < lanes; ++i)
      largest = high[i] > largest ? high[i] : largest;
    values sums{};
    for (size k = 0; k < end_of(seen); k += lanes) {
      const auto e = exponential(load(scores + k) - largest);
      store(scores + k, e);
      sums += e;
    }
    const auto sum = sum_of(sums);
    logarithm = largest + __builtin_logf(sum);
    return sum;
  }

  /// Scratch memory of a forward.
  struct forward_scratch {
    forward_scratch(const layout& l, float* first)
      : scores(first),
        query(scores + l.scores()),
        output(query + l.queries()),
        keys(output + l.queries()),
        values(keys + l.matrix()) {}

    float *scores, *query, *output, *keys, *values;
  };

  template <class T>
  static void forward_block(const layout& l, queries_of q,
                            head_rows<const T> query, head_rows<T> output,
                            float* logarithms, const forward_scratch& to) {
    copy_block(l, q, query, l.s.scale, to.query);
    multiply_keys(l, q, to.query, to.keys, to.scores);
    float sums[block];
    for (size i = 0; i < q.count; ++i)
      sums[i] = softmax(to.scores + i * l.row, l.seen_by(q.first + i),
                        logarithms[q.first + i]);
    clear_rest(l, q, to.scores);
    sum_over_keys(l, q, to.scores, to.values, to.output);
    for (size i = 0; i < q.count; ++i)
      write(to.output + i * l.width, l, 1, 1 / sums[i],
            rows_of(output, 0, q.first + i));
  }

  template <class T>
  static void forward(const attention_sizes& sizes,
                      const forward_heads<T>& heads, float* scratch) {
    const layout l(sizes);
    const forward_scratch to(l, scratch);
    transpose(heads.key, l, to.keys);
    copy(heads.value, sizes.keys, sizes.width, l.width, 1, to.values);
    for (size h = 0; h < sizes.group; ++h)
      for (size first = 0; first < sizes.queries; first += block)
        forward_block(l, block_at(l, first), rows_of(heads.query, h),
                      rows_of(heads.output, h),
                      heads.logarithms + h * sizes.queries, to);
  }

  /// From scores to weights, and from the gradients of weights to those of
  /// scores.
  static void weights(float* scores, float* gradients, size seen,
                      float logarithm, float mean) {
    hide(scores, seen);
    for (size k = 0; k < end_of(seen); k += lanes) {
      const auto weight = exponential(load(scores + k) - logarithm);
      store(scores + k, weight);
      store(gradients + k, weight * (load(gradients + k) - mean));
    }
    for (size k = seen; k < end_of(seen); ++k)
      gradients[k] = 0;
  }

  /// The sum of the gradients of a query's output times that.
  template <class T>
  static float mean_of(const T* output, const float* of_output, size width) {
    float sum = 0;
    for (size j = 0; j < width; ++j)
      sum += read(output[j]) * of_output[j];
    return sum;
  }

  /// Scratch memory of a backward.
  struct backward_scratch {
    backward_scratch(const layout& l, float* first)
      : scores(first),
        gradients(scores + l.scores()),
        query(gradients + l.scores()),
        of_output(query + l.queries()),
        of_query(of_output + l.queries()),
        keys(of_query + l.queries()),
        key_panels(keys + l.matrix()),
        value_panels(key_panels + l.matrix()),
        of_keys(value_panels + l.matrix()),
        of_values(of_keys + l.matrix()) {}

    float *scores, *gradients, *query, *of_output, *of_query;
    float *keys, *key_panels, *value_panels, *of_keys, *of_values;
  };

  template <class T>
  static void backward_block(const layout& l, queries_of q,
                             const backward_heads<T>& heads, size h,
                             const backward_scratch& to) {
    const auto output = rows_of(heads.output, h, q.first);
    const auto* logarithms = heads.logarithms + h * l.s.queries + q.first;
    copy_block(l, q, rows_of(heads.query, h), l.s.scale, to.query);
    copy_block(l, q, rows_of(heads.of_output, h), 1, to.of_output);
    multiply_keys(l, q, to.query, to.key_panels, to.scores);
    multiply_keys(l, q, to.of_output, to.value_panels, to.gradients);
    for (size i = 0; i < q.count; ++i)
      weights(to.scores + i * l.row, to.gradients + i * l.row,
              l.seen_by(q.first + i), logarithms[i],
              mean_of(output.data + i * output.row, to.of_output + i * l.width,
                      l.s.width));
    clear_rest(l, q, to.gradients);
    sum_over_queries(l, q, to.scores, to.of_output, to.of_values);
    sum_over_queries(l, q, to.gradients, to.query, to.of_keys);
    sum_over_keys(l, q, to.gradients, to.keys, to.of_query);
    write(to.of_query, l, q.count, l.s.scale,
          rows_of(heads.of_query, h, q.first));
  }

  template <class T>
  static void backward(const attention_sizes& sizes,
                       const backward_heads<T>& heads, float* scratch) {
    const layout l(sizes);
    const backward_scratch to(l, scratch);
    transpose(heads.key, l, to.key_panels);
    transpose(heads.value, l, to.value_panels);
    copy(heads.key, sizes.keys, sizes.width, l.width, 1, to.keys);
    for (size i = 0; i < l.matrix(); ++i)
      to.of_keys[i] = to.of_values[i] = 0;
    for (size h = 0; h < sizes.group; ++h)
      for (size first = 0; first < sizes.queries; first += block)
        backward_block(l, block_at(l, first), heads, h, to);
    write(to.of_keys, l, sizes.keys, 1, heads.of_key);
    write(to.of_values, l, sizes.keys, 1, heads.of_value);
  }

  static size scratch_of(const attention_sizes& sizes) {
    const layout l(sizes);
    return 2 * l.scores() + 3 * l.queries() + 5 * l.matrix();
  }

 public:
  static constexpr attention_kernels kernels(const char* name) {
    return {name,
            scratch_of,
            {forward<float>, backward<float>},
            {forward<bf16_bits>, backward<bf16_bits>}};
  }
};

}  // namespace troupe::fused
