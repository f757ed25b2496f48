#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/stage/loss.hpp"
#include "troupe/engine/stage/model.hpp"

namespace troupe {

using option_value = std::variant<std::int64_t, double, bool>;
/// Values by their options' names.
using option_values = std::map<std::string, option_value>;

/// An option of a model; its values are of the type of `usual`, and a truth
/// value is a flag without a number. Options of
/// several models that share a name are one option: the first one described.
struct model_option {
  std::string name;  // as a long flag: d-model
  std::string help;
  option_value usual{}, least{}, most{};
  /// It changes how the model trains, and not the model: checkpoints of another
  /// value are resumed.
  bool of_training = false;
};

class model_folder;

/// A model with chosen options, for the rows of text_batches: token ids int64
/// [rows, length] in, logits [rows, length, vocabulary] out.
struct built_model {
  model layers;
  layer_range blocks;     // that an even split spreads, see split_evenly
  double parameters = 0;  // how many; 0: unknown before they are made
  double frozen = 0;      // of these
  loss_function loss = cross_entropy_loss();
  /// Where the model comes from, if from a folder of Hugging Face's
  /// transformers.
  std::shared_ptr<const model_folder> folder{};
};

/// Sizes of a stored model's tensors, by name.
using tensor_sizes = std::map<std::string, std::vector<std::int64_t>>;

/// What those tell of the model: some of its options, and of the data's; 0: not
/// told.
struct told_sizes {
  option_values values;
  std::int64_t length = 0, vocabulary = 0;
};

/// A model that the program offers under a name, with its options as flags.
struct model_entry {
  std::string name;
  std::string summary;  // what the model is, and what its layers are
  std::vector<model_option> options;
  /// Makes the model; the values include those of all its options, and the
  /// data's seed is also that of its weights. Throws `invalid_argument` for
  /// values that don't go together.
  std::function<built_model(const option_values& values,
                            const text_batch_options& data)>
    build;
  /// The sizes that any tensors tell; null: they tell nothing.
  std::function<told_sizes(const tensor_sizes&)> sizes_of{};
};

/// All models, by default one for each file NAME_model.cpp of this folder,
/// which defines `model_entry NAME_model()`. A program adds its own before it
/// reads its arguments; not for several threads.
std::vector<model_entry>& registered_models();

/// Throws `invalid_argument`, with the names of all models.
const model_entry& find_model(const std::string& name);

/// The value of a whole-number option.
std::int64_t whole(const option_values& values, const std::string& name);

}  // namespace troupe
