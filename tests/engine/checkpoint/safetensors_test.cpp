#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/checkpoint/safetensors_file.hpp"
#include "troupe/engine/stage/layer_sequence.hpp"

#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <fmt/format.h>

#include <cstring>
#include <iterator>
#include <limits>
#include <map>
#include <random>

#include "../../files.hpp"
#include "../../temporary_folder.hpp"
#include "../../thread_seconds.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/models/gpt.hpp"
#include "troupe/engine/stage/split.hpp"

using namespace troupe;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using namespace troupe::testing;

namespace {

std::string with_header(const std::string& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + header + std::string(data, 'x');
}

}  // namespace

TEST_CASE("the digest of a large file equals the one its writer returned") {
  const temporary_folder folder;
  const auto path = folder / "a.safetensors";
  const auto written = write_safetensors(path, {{"a", at::rand({700'001})}});
  CHECK(safetensors_file(path).digest() == written.sha256);
}

TEST_CASE("one float is the 76-byte file that the format prescribes") {
  const temporary_folder folder;
  const auto path = folder / "g.safetensors";
  write_safetensors(path, {{"gradient", at::ones({1, 1})}});
  const auto bytes = content(path);
  CHECK(bytes.size() == 76);
  CHECK(
    bytes.substr(8, 64)
    == R"({"gradient":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}} )");
}

TEST_CASE("tensors of all dtypes and shapes come back as they were") {
  const temporary_folder folder;
  const auto path = folder / "a.safetensors";
  const parameter_list tensors = {{"f32", at::rand({3, 4})},
                                  {"f64", at::rand({2}, at::kDouble)},
                                  {"bf16", at::rand({5}).to(at::kBFloat16)},
                                  {"f16", at::rand({5}).to(at::kHalf)},
                                  {"i64", at::tensor({1, -2, 3})},
                                  {"scalar", at::rand({})},
                                  {"empty", at::rand({0, 3})},
                                  {"transposed", at::rand({3, 4}).t()}};
  write_safetensors(path, tensors, {{"made by", "a test"}});
  const auto back = read_safetensors(path);
  REQUIRE(back.size() == tensors.size());
  for (std::size_t i = 0; i < back.size(); ++i) {
    INFO(tensors[i].first);
    const auto& original = tensors[i].second;
    const auto entry = std::ranges::find(back, tensors[i].first,
                                         &parameter_list::value_type::first);
    REQUIRE(entry != back.end());
    CHECK(entry->second.scalar_type() == original.scalar_type());
    CHECK(at::equal(entry->second, original));
  }
}

TEST_CASE("dtypes that are only passed on are written as they were read") {
  const temporary_folder folder;
  const auto path = folder / "a.safetensors";
  for (const auto& [name, bytes] :
       std::map<std::string, std::size_t>{{"U16", 2},
                                          {"U32", 4},
                                          {"U64", 8},
                                          {"F8_E4M3", 1},
                                          {"F8_E5M2", 1},
                                          {"F8_E4M3FNUZ", 1},
                                          {"F8_E5M2FNUZ", 1},
                                          {"F8_E8M0", 1}}) {
    INFO(name);
    const auto header = fmt::format(
      R"({{"a":{{"dtype":"{}","shape":[3],"data_offsets":[0,{}]}}}})", name,
      3 * bytes);
    const auto padded = header + std::string((8 - header.size() % 8) % 8, ' ');
    const auto whole = with_header(padded, 3 * bytes);
    const auto tensors = read_safetensors(folder.write("b.safetensors", whole));
    CHECK(first_not_finite(tensors) == "");
    write_safetensors(path, tensors);
    CHECK(content(path) == whole);
    CHECK_THROWS_MATCHES(
      load_parameters(
        {{"a", at::zeros({3}, name[0] == 'F' ? at::kFloat : at::kLong)}},
        tensors, path),
      error, MessageMatches(ContainsSubstring("no model is trained from")));
  }
}

TEST_CASE("a GPT's parameters have the same names however it is split") {
  const gpt_options sizes{.width = 8, .layers = 2, .heads = 2, .length = 4};
  const auto layers = gpt(sizes);
  const auto whole = layer_sequence(layers, {0, 4}).parameters_by_name();
  parameter_list parts;
  for (const auto& range : split(layers, 2))
    for (auto& item : layer_sequence(layers, range).parameters_by_name())
      parts.push_back(item);
  REQUIRE(parts.size() == whole.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CHECK(parts[i].first == whole[i].first);
    CHECK(at::equal(parts[i].second, whole[i].second));
  }
  CHECK(whole.front().first == "tok.weight");
  CHECK(whole[2].first == "blocks.0.ln1.weight");
  CHECK(whole.back().first == "head.bias");
}

TEST_CASE("damaged files are refused with a reason") {
  const temporary_folder folder;
  const auto refused = [&](const std::string& bytes,
                           const std::string& reason) {
    INFO(reason);
    const auto path = folder.write("x.safetensors", bytes);
    CHECK_THROWS_MATCHES(read_safetensors(path), error,
                         MessageMatches(ContainsSubstring(reason)));
  };
  const std::string f = R"({"a":{"dtype":"F32","shape":[2],"data_offsets":)";
  refused("abc", "too short");
  refused("version of git-lfs, 1\noid sha256:0\n", "is a pointer of Git LFS");
  refused(with_header("{}", 0).substr(0, 9), "announces a header of 2 bytes");
  refused(with_header("[1]", 0), "not a JSON object");
  refused(with_header("{]", 0), "not a JSON object");
  refused(with_header(R"({"a":{"dtype":"F32"}})", 0), "'a' lacks");
  refused(
    with_header(R"({"a":{"dtype":"F9","shape":[],"data_offsets":[0,4]}})", 4),
    "unknown dtype 'F9'");
  refused(with_header(f + "[0,4]}}", 4), "offsets 0..4 where 0..8");
  refused(with_header(f + "[4,12]}}", 12), "offsets 4..12 where 0..8");
  refused(with_header(f + "[0,8]}}", 9),
          "describes 8 bytes of data, the "
          "file has 9");
  refused(with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],)"
                      R"("data_offsets":[0,8]}})",
                      8),
          "impossible shape");
  refused(with_header(R"({"a":{"dtype":"F32","shape":[-1],)"
                      R"("data_offsets":[0,8]}})",
                      8),
          "'a' has -1 in its shape");
}

namespace {

/// Checks that a file with this header, and no data, is refused.
void refused_header(const std::string& header, const std::string& reason) {
  const temporary_folder folder;
  const auto path = folder.write("x.safetensors", with_header(header, 0));
  INFO(reason);
  CHECK_THROWS_MATCHES(
    read_safetensors(path), error,
    MessageMatches(ContainsSubstring(path) && ContainsSubstring(reason)));
}

}  // namespace

TEST_CASE(
  "JSON that a parser accepts but the format forbids is refused by name") {
  const std::string empty =
    R"({"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  const auto tensor = [](const std::string& fields) {
    return R"({"a":{)" + fields + "}}";
  };
  refused_header(R"({"a":)" + empty + R"(,"a":)" + empty + "}",
                 "'a' is there twice");
  refused_header(tensor(R"("dtype":"F32","dtype":"F32","shape":[0],)"
                        R"("data_offsets":[0,0])"),
                 "'a' has 'dtype' twice");
  refused_header("\xEF\xBB\xBF{}", "not a JSON object");
  refused_header(std::string("{}\0", 3), "not a JSON object");
  refused_header(std::string("{}\0{}", 5), "not a JSON object");
  refused_header(" {}", "not a JSON object");
  refused_header(
    tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0.0,0.5])"),
    "'a' has 0.0 in its data_offsets");
  refused_header(tensor(R"("dtype":"F32","shape":[0.5],"data_offsets":[0,0])"),
                 "'a' has 0.5 in its shape");
  refused_header(tensor(R"("dtype":"F32","shape":[0],"data_offsets":[-1,0])"),
                 "'a' has -1 in its data_offsets");
  refused_header(tensor(R"("dtype":"F32","shape":[0],"data_offsets":[0,0,0])"),
                 "lacks");
  refused_header(tensor(R"("dtype":"F32","shape":{"x":0},"data_offsets":[])"),
                 "in its shape");
  refused_header(R"({"__metadata__":{"a":1}})", "metadata 'a' is not a string");
  refused_header(R"({"a":3})", "'a' is not an object");
}

TEST_CASE("a shape whose strides overflow is refused by name") {
  refused_header(R"({"a":{"dtype":"F32","shape":[0,4611686018427387904,)"
                 R"(4611686018427387904],"data_offsets":[0,0]}})",
                 "'a' has an impossible shape");
}

TEST_CASE("a header of brackets alone is refused at once") {
  const temporary_folder folder;
  const std::string brackets(50'000'000, '[');
  for (const auto* begin : {"", R"({"a":{"b":)"}) {
    const auto path = folder.write("x", with_header(begin + brackets, 0));
    const auto before = thread_seconds();
    CHECK_THROWS_AS(read_safetensors(path), error);
    CHECK(thread_seconds() - before < 2);
  }
}

TEST_CASE("an empty tensor may stand anywhere") {
  const temporary_folder folder;
  const auto path = folder.write(
    "x", with_header(R"({"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                     R"("a":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                     R"("c":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                     R"("d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                     8));
  CHECK(read_safetensors(path).size() == 4);
}

TEST_CASE("a header of many tensors is read soon") {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header += (i == 0 ? "\"" : ",\"") + std::to_string(i)
              + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]})";
  const auto begin = thread_seconds();
  const temporary_folder folder;
  const auto path = folder.write("a", with_header(header + "}", 0));
  CHECK(read_safetensors(path).size() == 100'000);
  CHECK(thread_seconds() - begin < 20);
}

TEST_CASE("many tensors are written and loaded soon") {
  parameter_list model;
  for (int i = 0; i < 50'000; ++i)
    model.emplace_back("layers." + std::to_string(i), at::zeros({1}));
  const auto values = [&] {
    parameter_list all;
    const auto value = at::ones({1});
    for (const auto& each : model)
      all.emplace_back(each.first, value);
    return all;
  }();
  const temporary_folder folder;
  const auto path = folder / "a";
  const auto begin = thread_seconds();
  write_safetensors(path, values);
  load_parameters(model, values, path);
  CHECK(thread_seconds() - begin < 10);
  CHECK(model.back().second.item<float>() == 1);
  CHECK(safetensors_file(path).entries().at(49'999).name == "layers.49999");
}

TEST_CASE("no mutation of a good file crashes the reader") {
  const temporary_folder folder;
  const auto path = folder / "a.safetensors";
  write_safetensors(path, {{"a", at::ones({4})}, {"b", at::ones({2, 2})}});
  const auto good = content(path);
  std::mt19937 random{1};
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    auto bytes = good;
    for (int k = 0; k < 3; ++k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    if (random() % 4 == 0)
      bytes.resize(random() % bytes.size());
    const auto mutated = folder.write("m.safetensors", bytes);
    try {
      read_safetensors(mutated);
    } catch (const error&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("parameters that don't fit are named and nothing is changed") {
  const parameter_list model = {{"a", at::ones({2})}, {"b", at::ones({3})}};
  const auto refused = [&](const parameter_list& values,
                           const std::string& reason) {
    CHECK_THROWS_MATCHES(load_parameters(model, values, "file"), error,
                         MessageMatches(ContainsSubstring(reason)));
    CHECK(at::equal(model[0].second, at::ones({2})));
  };
  refused({{"a", at::rand({2})}}, "lacks 'b', which the model has");
  refused({{"a", at::rand({2})}, {"b", at::rand({4})}},
          "'b' is Float[4], the model's is Float[3]");
  refused({{"a", at::rand({2})}, {"b", at::rand({3})}, {"c", at::rand({1})}},
          "has 'c', which the model lacks");
}

TEST_CASE("values beyond the range of the model's dtype are refused by name") {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kBFloat16}) {
    const parameter_list model = {{"a", at::ones({2}, dtype)},
                                  {"b", at::ones({2}, dtype)}};
    const auto infinity = std::numeric_limits<double>::infinity();
    const auto wide = at::tensor({1.0, -1e300}, at::kDouble);
    CHECK_THROWS_MATCHES(
      load_parameters(model, {{"a", at::zeros({2})}, {"b", wide}}, "file"),
      error,
      MessageMatches(ContainsSubstring(
        "file: 'b' is Double[2] with values beyond the range of ")));
    CHECK(at::equal(model[0].second, at::ones({2}, dtype)));
    const auto narrow = at::tensor({0.5, infinity}, at::kDouble);
    load_parameters(model, {{"a", at::zeros({2})}, {"b", narrow}}, "file");
    CHECK(at::equal(model[1].second.to(at::kDouble), narrow));
  }
}

TEST_CASE("a header that no reader accepts is not written") {
  const temporary_folder folder;
  const std::string longest(100'000'000, 'x');
  CHECK_THROWS_MATCHES(
    write_safetensors(folder / "a", {{longest, at::ones({1})}}), error,
    MessageMatches(ContainsSubstring(folder / "a")
                   && ContainsSubstring("accept at most 100000000")));
  CHECK(folder.empty());
}

TEST_CASE("a file that can't be written leaves nothing behind") {
  const temporary_folder folder;
  CHECK_THROWS_MATCHES(
    write_safetensors(folder / "no/such/x", {{"a", at::ones({1})}}), error,
    MessageMatches(ContainsSubstring("can't be created")));
  CHECK_THROWS_AS(write_safetensors(
                    folder / "y", {{"a", at::ones({1})}, {"a", at::ones({1})}}),
                  error);
  CHECK(folder.empty());
}
