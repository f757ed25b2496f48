// Changes of files with weights.
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "broken_folders.hpp"
#include "troupe/engine/checkpoint/safetensors.hpp"

namespace troupe::testing {

namespace fs = std::filesystem;

namespace {

// ------------------------------------------------------------ whole files

damage cut(const patient& at) {
  const auto name = at.weights();
  const auto bytes = content(at.path(name));
  at.write(name, bytes.substr(0, at.below(bytes.size())));
  return {{name}};
}

damage append(const patient& at) {
  const auto name = at.weights();
  at.write(name, content(at.path(name)) + std::string(1 + at.below(9), 'x'));
  return {{name}};
}

/// Replaces a file by nothing, a folder, an empty file, a link or a pipe.
damage replace_file(const patient& at) {
  const auto name = at.one_of<std::string>(
    {"config.json", at.weights(), at.has_index() ? index_name : at.weights()});
  const auto target = at.path(name);
  const auto kind = at.below(7);
  const auto original = at.path("kept");
  fs::rename(target, original);
  switch (kind) {
    case 0:
      break;
    case 1:
      fs::create_directory(target);
      break;
    case 2:
      at.write(name, "");
      break;
    case 3:
      fs::create_symlink("nowhere", target);
      break;
    case 4:
      fs::create_symlink(name, target);
      break;
    case 5:
      ::mkfifo(target.c_str(), 0600);
      break;
    default:  // as in the caches of published models
      fs::create_symlink("kept", target);
      return {{}, true};
  }
  return {{name, single_name}};
}

damage forbid(const patient& at) {
  const auto name = at.one_of<std::string>({"config.json", at.weights()});
  fs::permissions(at.path(name), fs::perms::none);
  return {{name}, ::geteuid() == 0};
}

damage flip_byte_of_header(const patient& at) {
  const auto name = at.weights();
  auto bytes = content(at.path(name));
  std::uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  bytes[at.below(8 + size)] = static_cast<char>(at.below(256));
  at.write(name, bytes);
  return {{name}, true};  // in the metadata, or the same byte
}

// ----------------------------------------------------------- parts that lie

damage lie_about_length(const patient& at) {
  const auto name = at.weights();
  auto bytes = content(at.path(name));
  const auto shift = 8 * at.below(8);
  const auto size = at.one_of<std::uint64_t>(
    {0, 1, bytes.size(), bytes.size() - 8, UINT64_MAX, UINT64_MAX - 7,
     std::uint64_t{99} << shift, 99'999'999});
  std::memcpy(bytes.data(), &size, sizeof size);
  at.write(name, bytes);
  return {{name}};
}

/// Changes an entry of a header.
damage lie(const patient& at,
           const std::function<void(const raw_weights&, ordered&)>& change) {
  const auto name = at.weights();
  raw_weights file(content(at.path(name)));
  const auto tensor = at.one_of(file.names());
  const auto before = file.header[tensor];
  change(file, file.header[tensor]);
  at.write(name, file.bytes());
  return {{tensor, name}, file.header[tensor] == before};
}

ordered odd_number(const patient& at) {
  return at.one_of<ordered>({-1, 0, 1, 3, 1.5, 1e300, INT64_MAX, UINT64_MAX,
                             std::int64_t{1} << 40, "3", nullptr, true,
                             ordered::array(), ordered::object()});
}

damage lie_about_shape(const patient& at) {
  return lie(at, [&](const raw_weights&, ordered& entry) {
    auto& shape = entry["shape"];
    switch (at.below(4)) {
      case 0:
        shape.push_back(odd_number(at));
        break;
      case 1:
        shape[at.below(shape.size())] = odd_number(at);
        break;
      case 2:
        shape = odd_number(at);
        break;
      default:
        shape.insert(shape.begin(), {std::int64_t{1} << 32, 1 << 30, 4});
    }
  });
}

damage lie_about_offsets(const patient& at) {
  return lie(at, [&](const raw_weights& file, ordered& entry) {
    auto& offsets = entry["data_offsets"];
    const auto& other = file.header[at.one_of(file.names())]["data_offsets"];
    switch (at.below(4)) {
      case 0:
        offsets = other;
        break;
      case 1:
        offsets[at.below(2)] = odd_number(at);
        break;
      case 2:
        std::swap(offsets[0], offsets[1]);
        break;
      default:
        offsets[at.below(2)] =
          offsets[at.below(2)].get<std::int64_t>() + 1 + at.below(8);
    }
  });
}

damage lie_about_dtype(const patient& at) {
  return lie(at, [&](const raw_weights&, ordered& entry) {
    entry["dtype"] = at.one_of<ordered>(
      {"F16", "F32", "BF16", "F8_E4M3", "I64", "", "f32", 3, nullptr, {"F32"}});
    if (entry["dtype"] == "F16")
      entry["dtype"] = "I16";  // of the same size as BF16
  });
}

damage drop_field_of_entry(const patient& at) {
  return lie(at, [&](const raw_weights&, ordered& entry) {
    entry.erase(at.one_of<std::string>({"dtype", "shape", "data_offsets"}));
  });
}

damage repeat_entry(const patient& at) {
  const auto name = at.weights();
  const raw_weights file(content(at.path(name)));
  const auto tensor = at.one_of(file.names());
  auto text = file.header.dump();
  text.insert(1, fmt::format("\"{}\":{},", tensor, file.header[tensor].dump()));
  at.write(name, raw_weights::packed(text, file.data));
  return {{tensor}};
}

/// A part that is intact, but has another part's name.
damage swap_parts(const patient& at) {
  const auto a = at.weights(), b = at.weights();
  const auto bytes = content(at.path(a));
  at.write(a, content(at.path(b)));
  at.write(b, bytes);
  return {{a, b}, a == b};
}

// ---------------------------------------------------- tensors, all honest

damage change_tensors(
  const patient& at,
  const std::function<std::string(parameter_list&)>& change) {
  const auto name = at.weights();
  auto tensors = read_safetensors(at.path(name));
  const auto changed = change(tensors);
  write_safetensors(at.path(name), tensors);
  return {{changed}};
}

damage drop_tensor(const patient& at) {
  return change_tensors(at, [&](parameter_list& tensors) {
    const auto i = at.below(tensors.size());
    auto name = tensors[i].first;
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(i));
    return name;
  });
}

damage add_tensor(const patient& at) {
  return change_tensors(at, [&](parameter_list& tensors) {
    const auto name = at.one_of<std::string>(
      {"x", "model.layers.2.input_layernorm.weight", "model.norm.bias",
       "lm_head.bias", "model.layers.0.self_attn.q_proj.lora_A.weight",
       "model.layers.0.self_attn.q_proj.weight_scale"});
    tensors.emplace_back(name, at::ones({8}));
    return name;
  });
}

damage reshape_tensor(const patient& at) {
  return change_tensors(at, [&](parameter_list& tensors) {
    auto& [name, value] = tensors[at.below(tensors.size())];
    if (at.below(2) == 0)
      value = value.unsqueeze(static_cast<std::int64_t>(at.below(2)));
    else
      value = at::cat({value, value}).contiguous();
    return name;
  });
}

/// The head of a tied model, which some files hold.
damage add_head(const patient& at) {
  if (!at.read("config.json")["tie_word_embeddings"])
    return {{}, true};
  const bool same = at.below(2) == 0;
  auto done = change_tensors(at, [&](parameter_list& tensors) {
    const auto tokens = std::ranges::find(tensors, "model.embed_tokens.weight",
                                          &parameter_list::value_type::first);
    const auto head = tokens == tensors.end() ? at::ones({11, 8}, at::kBFloat16)
                                              : tokens->second * (same ? 1 : 2);
    tensors.emplace_back("lm_head.weight", head);
    return std::string("lm_head.weight");
  });
  done.harmless = same;
  return done;
}

damage retype_tensor(const patient& at) {
  return change_tensors(at, [&](parameter_list& tensors) {
    auto& [name, value] = tensors[at.below(tensors.size())];
    value = value.to(at.one_of<at::ScalarType>(
      {at::kInt, at::kBool, at::kLong, at::kComplexFloat}));
    return name;
  });
}

}  // namespace

const std::vector<change>& changes_of_weights() {
  static const std::vector<change> all{cut,
                                       append,
                                       replace_file,
                                       forbid,
                                       flip_byte_of_header,
                                       lie_about_length,
                                       lie_about_shape,
                                       lie_about_offsets,
                                       lie_about_dtype,
                                       drop_field_of_entry,
                                       repeat_entry,
                                       swap_parts,
                                       drop_tensor,
                                       add_tensor,
                                       reshape_tensor,
                                       add_head,
                                       retype_tensor};
  return all;
}

}  // namespace troupe::testing
