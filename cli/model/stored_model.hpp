#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/cli/model_flags.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/models/model_texts.hpp"

namespace troupe::cli {

/// The checkpoint at a path, or the last one in a folder of checkpoints. Throws
/// `invalid_checkpoint`, and `io` if there is no such folder.
std::string checkpoint_in(const std::string& path);

/// Whether a path denotes a safetensors file: it is a file, or its name ends in
/// .safetensors. Throws `io` if the path can't be examined.
bool is_tensor_file(const std::string& path);

/// The tensors of a checkpoint, of the last one in a folder of checkpoints, or
/// of a safetensors file. Verifies checkpoints' digests first. `optimizer`:
/// includes the optimizer's state. Throws `io` and `invalid_checkpoint`.
parameter_list stored_tensors(const std::string& path, bool optimizer = false);

/// A model's name and options as texts, for manifests and files' metadata.
std::map<std::string, std::string> model_texts(const model_flags& flags,
                                               const text_batch_options& data,
                                               const built_model& model);
/// The texts stored at a path; empty without any.
std::map<std::string, std::string> stored_texts(const std::string& path);
/// The texts as metadata of a safetensors file, together with its usual
/// metadata.
std::map<std::string, std::string> model_metadata(
  const std::map<std::string, std::string>& model);

/// The flags that describe a model, some of which a checkpoint may make
/// superfluous.
struct model_request {
  model_flags flags;
  std::vector<std::string>
    explicit_flags;  // long names of the flags that are set
  std::int64_t length = 0, vocabulary = 0;  // 0: the checkpoint's
  at::ScalarType dtype = at::kFloat;  // of the parameters of a model folder
};

/// Warns of sequences that are longer than those of the model's training.
void warn_of_positions(const model_folder& folder, std::int64_t length);

/// The model whose parameters are stored at a path, and these parameters. Its
/// settings follow from the tensors, else from the checkpoint, else from the
/// flags. Throws `invalid_argument` for a missing or contradicting flag, and
/// `invalid_checkpoint` if the checkpoint contradicts its tensors.
struct stored_model {
  built_model model;
  text_batch_options data;  // the length of rows and the vocabulary
  parameter_list parameters;
  std::vector<std::int64_t>
    text_ends;  // tokens that end a text, of a model folder
};
stored_model open_model(const std::string& path, const model_request& request);

}  // namespace troupe::cli
