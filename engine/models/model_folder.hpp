#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/engine/models/decoders/decoder_choices.hpp"
#include "troupe/engine/models/registry.hpp"

namespace troupe {

class safetensors_files;
struct decoder_options;

/// What is read of a model's folder: also its weights, or its configuration
/// alone, to train it from scratch.
enum class folder_use : std::uint8_t { with_weights, from_scratch };

/// A model as Hugging Face's transformers stores it: config.json and, unless it
/// is to be trained from scratch, its weights; other files (of a tokenizer) are
/// carried along.
class model_folder {
 public:
  /// Reads config.json and the headers of the weights. Throws `io` and
  /// `invalid_checkpoint` naming what is missing, of another shape, not known
  /// to the model, or not understood.
  explicit model_folder(std::string path,
                        folder_use use = folder_use::with_weights);

  const std::string& path() const { return path_; }
  /// The text of config.json.
  const std::string& config() const { return config_; }
  const decoder_options& options() const { return *options_; }
  std::int64_t vocabulary() const;  // tokens
  /// The files that the model is read from.
  std::vector<std::string> files() const;
  /// Each layer reads its weights from the files as it is made, or draws fresh
  /// ones from `seed`. `dtype`: of the parameters. Throws `invalid_argument` if
  /// adapters are wanted, and no module is meant. A layer throws
  /// `invalid_checkpoint` for values beyond the range of fp16, if that is it.
  built_model build(at::ScalarType dtype, std::uint64_t seed,
                    const decoder_choices& choices = {}) const;
  /// Throws `invalid_argument` for a glob of `lora.modules` that matches
  /// no module, unless they are the usual ones, which suit several models.
  void require_each_module(const lora_options& lora) const;

  /// A copy of the folder with these parameters (of the whole model, under the
  /// names of its layers), in files of at most `most_bytes`, or of one tensor.
  /// `dtype`: none: that of the files that were read, else the parameters'.
  /// Names are those of the files; adapters are merged. The folder appears
  /// with all weights or not at all, as a fresh_folder. Throws `io`, also after
  /// the folder was made if other files can't be copied, and `invalid_argument`
  /// for values beyond the range of fp16, if that is it.
  void save(const std::string& path, const parameter_list& parameters,
            const lora_options& lora, std::optional<at::ScalarType> dtype,
            std::int64_t most_bytes) const;
  /// The adapters among these parameters as adapter_config.json and
  /// adapter_model.safetensors, which Hugging Face's PEFT reads. The folder
  /// appears whole or not at all, as a fresh_folder. Throws `io`.
  void save_adapter(const std::string& path, const parameter_list& parameters,
                    const lora_options& lora) const;

 private:
  parameter_list stored(const parameter_list& parameters,
                        const lora_options& lora,
                        std::optional<at::ScalarType> dtype) const;
  void require_weights() const;
  void require_stored(const std::string& name, at::IntArrayRef shape) const;
  /// A tied head that files hold nevertheless; returns its name.
  std::string require_same_head() const;
  /// The name in the files of a parameter.
  std::string stored_name(const std::string& name) const;

  std::string path_;
  std::string config_;  // the file's text
  std::shared_ptr<const decoder_options> options_;
  std::shared_ptr<const safetensors_files> weights_;  // null: from scratch
  std::string left_out_;  // a prefix of names, which the files lack
};

/// The weights of a folder as Hugging Face's transformers writes it:
/// model.safetensors, or model.safetensors.index.json and the parts that it
/// names. Reads the headers. Throws `io` and `invalid_checkpoint`, naming the
/// file: a part that is missing or broken, a tensor that is in two parts or not
/// in the part that the index says.
safetensors_files open_weights(const std::string& folder);

/// Whether a path is a folder with a config.json.
bool is_model_folder(const std::string& path);
/// The model of a config.json alone, without values: for parameters that are
/// loaded by name. `origin`: for errors.
built_model model_of_config(const std::string& config,
                            const std::string& origin,
                            const decoder_choices& choices = {});

/// The fields by which two config.json describe other models; empty: they
/// describe one. `origin`: for errors, as of `model_of_config`.
std::vector<std::string> differing_fields(const std::string& a,
                                          const std::string& b,
                                          const std::string& origin);

/// The tokens that end a text, by the field `eos_token_id`, an id or a list of
/// them, of a JSON text; empty: it names none. `origin`: for errors, which are
/// `invalid_checkpoint`.
std::vector<std::int64_t> text_ends_of(const std::string& fields,
                                       const std::string& origin);
/// Those of a model_folder: generation_config.json says, or config.json if
/// there is none. Throws `io`, too.
std::vector<std::int64_t> text_ends_in(const std::string& folder);

}  // namespace troupe
