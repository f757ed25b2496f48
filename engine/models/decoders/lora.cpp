#include "troupe/engine/models/decoders/lora.hpp"

#include <ATen/core/grad_mode.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "troupe/base/atomic_file.hpp"
#include "troupe/engine/checkpoint/fresh_folder.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"
#include "troupe/engine/events/subscription.hpp"
#include "troupe/engine/models/layers/layers.hpp"
#include "troupe/engine/stage/model.hpp"

namespace troupe {

namespace {

constexpr std::string_view first_part = ".lora_A.weight",
                           second_part = ".lora_B.weight";

}  // namespace

bool means_module(const std::string& globs, const std::string& module) {
  return matches_glob(globs, module)
         || matches_glob(globs, module.substr(module.rfind('.') + 1));
}

bool is_adapter(const std::string& parameter) {
  return parameter.ends_with(first_part) || parameter.ends_with(second_part);
}

void add_adapters(torch::nn::Module& layer, const std::string& layer_name,
                  const lora_options& options, const std::string& except) {
  if (options.rank == 0)
    return;
  const at::NoGradGuard no_grad;
  for (auto& parameter : layer.parameters())
    parameter.set_requires_grad(false);
  for (const auto& each : layer.named_modules({}, /*include_self=*/false)) {
    const auto module = std::dynamic_pointer_cast<linear_layer>(each.value());
    const auto name = dotted_name(layer_name, each.key());
    if (module && name != except && means_module(options.modules, name))
      module->add_adapter({options.rank, options.scale(), options.dropout},
                          generator_of(name, options.seed));
  }
}

at::Tensor merged(const std::string& name,
                  const std::map<std::string, at::Tensor>& parameters,
                  const lora_options& options, const std::string& transposed) {
  const auto& value = parameters.at(name);
  constexpr std::string_view end = ".weight";
  const auto module =
    name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
  const auto a = parameters.find(module + std::string(first_part));
  const auto b = parameters.find(module + std::string(second_part));
  if (a == parameters.end() || b == parameters.end())
    return value;
  const auto change = b->second.to(at::kFloat).mm(a->second.to(at::kFloat));
  const bool turn = !transposed.empty() && name.starts_with(transposed);
  return value.to(at::kFloat) + options.scale() * (turn ? change.t() : change);
}

void save_adapter(const std::string& path, const parameter_list& parameters,
                  const lora_options& options, bool transposed,
                  const std::string& base) {
  parameter_list adapters;
  std::vector<std::string> modules;
  for (const auto& [name, value] : parameters) {
    if (!is_adapter(name))
      continue;
    adapters.emplace_back("base_model.model." + name, value);
    if (name.ends_with(first_part))
      modules.push_back(name.substr(0, name.size() - first_part.size()));
  }
  const nlohmann::ordered_json config{{"base_model_name_or_path", base},
                                      {"bias", "none"},
                                      {"fan_in_fan_out", transposed},
                                      {"inference_mode", true},
                                      {"init_lora_weights", true},
                                      {"lora_alpha", options.alpha},
                                      {"lora_dropout", options.dropout},
                                      {"modules_to_save", nullptr},
                                      {"peft_type", "LORA"},
                                      {"r", options.rank},
                                      {"target_modules", modules},
                                      {"task_type", "CAUSAL_LM"}};
  fresh_folder target(path);
  write_safetensors(target.file("adapter_model.safetensors"), adapters,
                    {{"format", "pt"}});
  write_file_atomically(target.file("adapter_config.json"),
                        config.dump(2) + "\n");
  target.keep();
}

}  // namespace troupe
