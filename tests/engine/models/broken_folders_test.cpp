// Hundreds of model folders, each with some damage.
#include "broken_folders.hpp"

#include <ATen/ops/arange.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "../../temporary_folder.hpp"
#include "troupe/base/error.hpp"
#include "troupe/engine/models/model_folder.hpp"
#include "troupe/engine/stage/plain/plain_loop.hpp"
#include "troupe/engine/stage/stage_module.hpp"

using namespace troupe;
using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

// ------------------------------------------------------------ the folders

ordered config_of(bool tied) {
  return {{"model_type", tied ? "qwen3" : "llama"},
          {"vocab_size", 11},
          {"hidden_size", 8},
          {"intermediate_size", 12},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 1},
          {"head_dim", 4},
          {"hidden_act", "silu"},
          {"rms_norm_eps", 1e-5},
          {"max_position_embeddings", 16},
          {"attention_bias", !tied},
          {"tie_word_embeddings", tied},
          {"rope_parameters", {{"rope_theta", 100}, {"rope_type", "default"}}},
          {"dtype", "bfloat16"}};
}

at::Tensor outputs_of(const std::string& folder) {
  const model_folder read(folder);
  const auto layers = read.build(at::kFloat, 1).layers;
  tensor_list values{at::arange(5).view({1, 5})};
  for (std::size_t i = 0; i < layers.size(); ++i)
    values = make_layer(layers, i)->forward(values);
  return values.at(0).detach();
}

/// Intact folders: with one file, and with an index of parts.
std::vector<std::string> whole_folders(const temporary_folder& at) {
  std::vector<std::string> folders;
  for (const bool tied : {false, true}) {
    const auto config = at / fmt::format("config{}", tied);
    fs::create_directory(config);
    std::ofstream(config + "/config.json") << config_of(tied).dump();
    const model_folder fresh(config, folder_use::from_scratch);
    plain_loop loop(fresh.build(at::kFloat, 1).layers, {});
    for (const std::int64_t most : {1 << 20, 700}) {
      folders.push_back(at / fmt::format("whole{}", folders.size()));
      fresh.save(folders.back(), loop.parameters(), {}, at::kBFloat16, most);
    }
  }
  return folders;
}

long peak_kib() {
  struct rusage used {};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_maxrss;
}

bool names_one(const std::string& text, const std::vector<std::string>& names) {
  return std::ranges::any_of(names, [&](const std::string& name) {
    return text.find(name) != text.npos;
  });
}

}  // namespace

TEST_CASE("a broken folder is refused by name, or loads as the same model") {
  const temporary_folder at;
  const auto folders = whole_folders(at);
  std::vector<at::Tensor> outputs;
  for (const auto& folder : folders)
    outputs.push_back(outputs_of(folder));
  auto changes = changes_of_weights();
  changes.insert(changes.end(), changes_of_texts().begin(),
                 changes_of_texts().end());
  [[maybe_unused]] const auto memory = peak_kib();
  std::mt19937 random(1);
  int refused = 0, same = 0;
  for (std::size_t i = 0; i < 30 * changes.size(); ++i) {
    const auto which = random() % folders.size();
    const auto folder = at / "broken";
    fs::copy(folders[which], folder);
    const auto done = changes[i % changes.size()](patient{folder, random});
    INFO("change " << i % changes.size() << ", folder " << which << ", run "
                   << i << ": "
                   << fmt::format("{}", fmt::join(done.named, ", ")));
    try {
      const auto now = outputs_of(folder);
      CHECK(done.harmless);
      CHECK(now.equal(outputs[which]));
      ++same;
    } catch (const error& why) {
      const std::string text = why.what();
      INFO(text);
      CHECK(text.starts_with(folder));
      CHECK(names_one(text, done.named));
      CHECK(text.size() < 2000);
      ++refused;
    }
    fs::remove_all(folder);
  }
  CHECK(refused > 600);
  CHECK(same > 60);
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed
  CHECK(peak_kib() - memory < 100'000);
#endif
}
