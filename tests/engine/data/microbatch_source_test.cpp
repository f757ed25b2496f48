#include "troupe/engine/data/microbatch_source.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "../../says.hpp"
#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/data/row_order.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::testing::temporary_folder;

namespace {

/// Bytes 0, 1, 2, ... modulo 251.
std::shared_ptr<const token_source> counting(const temporary_folder& folder,
                                             std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    bytes[i] = static_cast<char>(i % 251);
  return open_tokens(folder.write("text", bytes), token_format::bytes);
}

std::int64_t id_at(const at::Tensor& tensor, std::int64_t i) {
  return tensor.const_data_ptr<std::int64_t>()[i];
}

}  // namespace

TEST_CASE("a permutation takes each index once, and the seed decides where") {
  for (const std::int64_t size : {1, 2, 3, 7, 64, 1000}) {
    const permutation order(size, 5);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < size; ++i)
      rows.push_back(order(i));
    std::ranges::sort(rows);
    std::vector<std::int64_t> expected(static_cast<std::size_t>(size));
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(rows == expected);
  }
  CHECK(permutation(1000, 1)(0) != permutation(1000, 2)(0));
}

TEST_CASE("targets are the tokens that follow the inputs") {
  const temporary_folder folder;
  const auto source =
    text_batches(counting(folder, 1000), {.rows = 3, .length = 10});
  const auto data = source->at(5);
  CHECK(data.tokens == 30);
  CHECK(data.inputs.at(0).sizes() == at::IntArrayRef{3, 10});
  for (std::int64_t i = 0; i < 30; ++i)
    CHECK(id_at(data.targets.at(0), i)
          == (id_at(data.inputs.at(0), i) + 1) % 251);
}

TEST_CASE("the same seed and index give the same microbatch") {
  const temporary_folder folder;
  const auto tokens = counting(folder, 5000);
  const text_batch_options options{.rows = 2, .length = 16, .seed = 9};
  const auto a = text_batches(tokens, options);
  const auto b = text_batches(tokens, options);
  CHECK(at::equal(a->at(70).inputs[0], b->at(70).inputs[0]));
  auto other = options;
  other.seed = 10;
  CHECK_FALSE(at::equal(a->at(70).inputs[0],
                        text_batches(tokens, other)->at(70).inputs[0]));
}

TEST_CASE("an epoch takes each row once, in another order each time") {
  const temporary_folder folder;
  const auto source =
    text_batches(counting(folder, 251), {.rows = 1, .length = 10});
  const std::int64_t rows = 24;  // 250 tokens less one row of slack
  std::vector<std::int64_t> first, second;
  for (std::int64_t i = 0; i < rows; ++i) {
    first.push_back(id_at(source->at(i).inputs[0], 0));
    second.push_back(id_at(source->at(rows + i).inputs[0], 0));
  }
  CHECK(std::set(first.begin(), first.end()).size() == rows);
  CHECK(std::set(second.begin(), second.end()).size() == rows);
  CHECK(first != second);
}

TEST_CASE("a preprocess hook changes what stages get") {
  const temporary_folder folder;
  const auto plain =
    text_batches(counting(folder, 300), {.rows = 1, .length = 8});
  const auto hooked =
    preprocess(plain, [](microbatch_data data, std::int64_t index) {
      data.arguments["index"] = at::full({}, index);
      return data;
    });
  CHECK(hooked->at(3).arguments.at("index").item<std::int64_t>() == 3);
  CHECK(at::equal(hooked->at(3).inputs[0], plain->at(3).inputs[0]));
}

TEST_CASE("texts that don't do are refused") {
  const temporary_folder folder;
  const auto tokens = counting(folder, 40);
  CHECK_THROWS_MATCHES(text_batches(tokens, {.rows = 4, .length = 10}), error,
                       MessageMatches(ContainsSubstring(
                         "40 tokens are fewer than one microbatch of 4 rows of "
                         "10 tokens (41 are needed)")));
  CHECK_NOTHROW(text_batches(tokens, {.rows = 3, .length = 10}));
  const auto narrow =
    text_batches(tokens, {.rows = 1, .length = 8, .vocabulary = 20});
  CHECK_THROWS_MATCHES(
    ([&] {
      for (std::int64_t i = 0; i < 4; ++i)
        narrow->at(i);
    }()),
    error, MessageMatches(ContainsSubstring("beyond the vocabulary of 20")));
  CHECK(first_outside(*tokens, 20) == 20);
  CHECK(first_outside(*tokens, 40) == -1);
}

namespace {

token_pointer listed(std::vector<std::int64_t> all) {
  return std::make_shared<token_source>(
    "list", std::ssize(all), [all](auto first, auto count, auto* out) {
      std::copy_n(all.begin() + first, count, out);
    });
}

std::vector<std::int64_t> values_of(const at::Tensor& from) {
  const auto* first = from.const_data_ptr<std::int64_t>();
  return {first, first + from.numel()};
}

using numbers = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("masked tokens are read, and not predicted") {
  const auto tokens =
    with_mask(listed({7, 8, 0, 9, 7}), listed({1, 0, 1, 0, 1}));
  const text_batch_options options{
    .rows = 1, .length = 4, .vocabulary = 10, .shuffle = false};
  for (const auto& source :
       {text_batches(tokens, options), rows_once(tokens, options)}) {
    const auto data = source->at(0);
    CHECK(values_of(data.inputs[0]) == numbers{7, 8, 0, 9});
    CHECK(values_of(data.targets[0]) == numbers{-100, 0, -100, 7});
  }
  CHECK(first_outside(*tokens, 9) == 3);
  CHECK(first_outside(*tokens, 10) == -1);
  CHECK(first_outside(*listed({1, -1}), 10) == 1);
}

TEST_CASE("masks that don't do are refused") {
  CHECK_THROWS_MATCHES(with_mask(listed({1, 2}), listed({1})), error,
                       testing::says("has 1 values, for the 2 tokens"));
  CHECK_THROWS_MATCHES(with_mask(listed({1, 2}), listed({1, 2})), error,
                       testing::says("value 1 is 2, neither 0 nor 1"));
}

TEST_CASE("documents start behind the token that ends one") {
  const text_batch_options options{
    .rows = 2, .length = 4, .vocabulary = 10, .shuffle = false};
  const auto rows = text_batches(listed({5, 1, 5, 5, 2, 3, 4, 5, 1}), options);
  const auto data = with_document_starts(rows, 5)->at(0);
  CHECK(values_of(data.arguments.at(document_starts))
        == numbers{0, 1, 1, 3, 0, 0, 0, 0});
  // The token after an end is predicted only on request.
  CHECK(values_of(data.targets[0])
        == numbers{-100, 5, -100, -100, 3, 4, 5, -100});
  CHECK(values_of(with_document_starts(rows, 5, true)->at(0).targets[0])
        == numbers{1, 5, 5, 2, 3, 4, 5, 1});
}

TEST_CASE("rows without a label can be passed over") {
  const auto tokens =
    with_mask(listed({0, 1, 2, 3, 4, 5, 6}), listed({1, 0, 0, 1, 0, 0, 1}));
  CHECK(rows_with_labels(*tokens, 2, 0) == numbers{1, 2});
  CHECK(rows_with_labels(*tokens, 2, 1) == numbers{1});
  CHECK(rows_with_labels(*tokens, 1, 0) == numbers{2, 5});
  const auto rows =
    rows_once(tokens, {.rows = 4, .length = 2, .vocabulary = 10}, {1, 2});
  CHECK(rows->size() == 1);
  CHECK(rows->at(0).tokens == 4);
  CHECK(values_of(rows->at(0).inputs[0]) == numbers{2, 3, 4, 5});
  CHECK(values_of(rows->at(0).targets[0]) == numbers{3, -100, -100, 6});
}
