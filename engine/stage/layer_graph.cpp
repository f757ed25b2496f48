#include "troupe/engine/stage/layer_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "troupe/base/fail.hpp"
#include "troupe/schedules/op.hpp"

namespace troupe {

namespace {

using reads_by_layer = std::vector<std::vector<layer_read>>;
using layer_numbers = std::map<std::string, std::int32_t>;

layer_numbers numbers_of(const model& layers) {
  layer_numbers numbers;
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (!layers[i].name.empty())
      numbers.emplace(layers[i].name, static_cast<std::int32_t>(i));
  return numbers;
}

/// The layers by which `reader` depends on `source`, both included; empty: it
/// does not.
std::vector<std::int32_t> path(const model& layers,
                               const layer_numbers& numbers,
                               std::int32_t reader, std::int32_t source) {
  std::vector<std::int32_t> reader_of(layers.size(), -1);
  std::vector<std::int32_t> open{reader};
  while (!open.empty() && reader_of[slot(source)] < 0) {
    const auto layer = open.back();
    open.pop_back();
    const auto visit = [&](std::int32_t next) {
      if (next < 0 || reader_of[slot(next)] >= 0)
        return;
      reader_of[slot(next)] = layer;
      open.push_back(next);
    };
    const auto& reads = layers[slot(layer)].reads;
    if (reads.empty())
      visit(layer - 1);
    for (const auto& each : reads)
      if (const auto entry = numbers.find(each.layer); entry != numbers.end())
        visit(entry->second);
  }
  if (reader_of[slot(source)] < 0)
    return {};
  std::vector<std::int32_t> chain{source};
  while (chain.size() == 1 || chain.back() != reader)
    chain.push_back(reader_of[slot(chain.back())]);
  std::ranges::reverse(chain);
  return chain;
}

[[noreturn]] void refuse_later(const model& layers,
                               const layer_numbers& numbers,
                               std::int32_t reader, std::int32_t later) {
  const auto label = [&](std::int32_t i) { return label_of(layers, slot(i)); };
  if (later == reader)
    fail(error_code::invalid_argument, "{} reads itself", label(reader));
  const auto chain = path(layers, numbers, later, reader);
  if (chain.empty())
    fail(error_code::invalid_argument,
         "{} reads {}, which runs after it; list layers in execution order",
         label(reader), label(later));
  std::vector<std::string> cycle{label(reader)};
  for (const auto each : chain)
    cycle.push_back(label(each));
  fail(error_code::invalid_argument,
       "the layers read each other in a cycle: {}; each may only read earlier "
       "ones",
       fmt::join(cycle, ", which reads "));
}

bool holds(const layer_range& range, std::int32_t layer) {
  return layer >= range.first && layer < range.last;
}

/// The tensors of layers of `source` that layers of `reader` read.
stage_crossing crossing(const reads_by_layer& reads, layer_range source,
                        layer_range reader) {
  stage_crossing result;
  std::set<layer_read> singles;
  layer_read whole;
  std::int32_t whole_reader = 0;
  for (auto j = reader.first; j < reader.last; ++j)
    for (const auto& each : reads[slot(j)])
      if (holds(source, each.layer)) {
        if (each.index != layer_read::all)
          singles.insert(each);
        else
          whole = each, whole_reader = j;
      }
  const bool reads_all = whole.layer != layer_read::model_inputs;
  if (reads_all)
    std::erase_if(singles,
                  [&](const auto& each) { return each.layer == whole.layer; });
  result.tensors.assign(singles.begin(), singles.end());
  for (auto j = reader.first; j < reader.last; ++j)
    for (const auto& each : reads[slot(j)])
      if (holds(source, each.layer) && each.index != layer_read::all) {
        const auto tensor = std::ranges::find(result.tensors, each);
        result.uses.push_back(
          {j, slot(tensor - result.tensors.begin()), each.index});
      }
  if (reads_all) {
    result.uses.push_back(
      {whole_reader, result.tensors.size(), layer_read::all});
    result.tensors.push_back(whole);
  }
  return result;
}

}  // namespace

std::string label_of(const model& layers, std::size_t index) {
  const auto& name = layers[index].name;
  return name.empty() ? fmt::format("layer {}", index)
                      : fmt::format("layer {} ('{}')", index, name);
}

reads_by_layer reads_of(const model& layers) {
  const auto numbers = numbers_of(layers);
  reads_by_layer all;
  for (std::int32_t i = 0; i < std::ssize(layers); ++i) {
    const auto& declared = layers[slot(i)].reads;
    auto& reads = all.emplace_back();
    if (declared.empty())
      reads.push_back({i - 1, layer_read::all});
    for (const auto& each : declared) {
      if (each.index < 0)
        fail(error_code::invalid_argument,
             "{} reads output {} of '{}'; outputs count from 0",
             label_of(layers, slot(i)), each.index, each.layer);
      const auto entry = numbers.find(each.layer);
      if (!each.layer.empty() && entry == numbers.end())
        fail(error_code::invalid_argument,
             "{} reads '{}', and no layer has that name",
             label_of(layers, slot(i)), each.layer);
      if (entry != numbers.end() && entry->second >= i)
        refuse_later(layers, numbers, i, entry->second);
      reads.push_back(
        {entry == numbers.end() ? layer_read::model_inputs : entry->second,
         each.index});
    }
  }
  return all;
}

tensor_lists stage_crossing::by_use(
  const tensor_list& message, const std::vector<std::string>& labels) const {
  const bool has_whole =
    !tensors.empty() && tensors.back().index == layer_read::all;
  const auto singles = tensors.size() - (has_whole ? 1 : 0);
  if (message.size() < singles || (!has_whole && message.size() > singles))
    fail(error_code::mismatch,
         "stage {} returned {} tensors, but {} are read; do all processes have "
         "the same model?",
         stage, message.size(), singles);
  tensor_lists all;
  for (const auto& each : uses) {
    if (each.index == layer_read::all) {
      all.emplace_back(message.begin() + static_cast<std::ptrdiff_t>(singles),
                       message.end());
      continue;
    }
    const auto position =
      each.tensor < singles ? each.tensor : singles + slot(each.index);
    if (position >= message.size())
      fail(error_code::invalid_argument,
           "{} reads output {} of {}, which returned {}",
           labels[slot(each.reader)], each.index,
           labels[slot(tensors[each.tensor].layer)], message.size() - singles);
    all.push_back({message[position]});
  }
  return all;
}

stage_interface interface_of(const model& layers, const stage_split& split,
                             std::int32_t stage) {
  const auto reads = reads_of(layers);
  const auto own = split.at(slot(stage));
  stage_interface result;
  for (std::int32_t s = 0; s < std::ssize(split); ++s) {
    if (s == stage)
      continue;
    const auto other = split[slot(s)];
    auto tensors =
      s < stage ? crossing(reads, other, own) : crossing(reads, own, other);
    tensors.stage = s;
    if (!tensors.uses.empty())
      (s < stage ? result.inputs : result.outputs)
        .push_back(std::move(tensors));
  }
  return result;
}

std::int32_t stage_of_layer(const stage_split& split, std::int32_t layer) {
  return static_cast<std::int32_t>(
    std::ranges::upper_bound(split, layer, {}, &layer_range::last)
    - split.begin());
}

stage_graph graph_of(const model& layers, const stage_split& split) {
  std::set<stage_edge> edges;
  const auto reads = reads_of(layers);
  for (std::int32_t i = 0; i < std::ssize(reads); ++i)
    for (const auto& each : reads[slot(i)])
      if (each.layer != layer_read::model_inputs)
        if (const auto source = stage_of_layer(split, each.layer),
            target = stage_of_layer(split, i);
            source != target)
          edges.insert({source, target});
  return {static_cast<std::int32_t>(split.size()),
          {edges.begin(), edges.end()}};
}

bool reads_microbatch(const model& layers, const stage_split& split,
                      std::int32_t stage) {
  const auto reads = reads_of(layers);
  const auto range = split[slot(stage)];
  for (auto i = range.first; i < range.last; ++i) {
    const auto index = slot(i);
    const auto reads_inputs = [](const layer_read& each) {
      return each.layer == layer_read::model_inputs;
    };
    if (layers[index].loss || i + 1 == std::ssize(layers)
        || std::ranges::any_of(reads[index], reads_inputs))
      return true;
  }
  return false;
}

}  // namespace troupe
