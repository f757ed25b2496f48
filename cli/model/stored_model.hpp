#pragma once

#include <map>
#include <string>
#include <vector>

#include "troupe/cli/model_flags.hpp"
#include "troupe/engine/checkpoint/stored_checkpoint.hpp"
#include "troupe/engine/models/model_texts.hpp"

namespace troupe::cli {

/// The checkpoint at a path, or the last one of a folder of them. Throws
/// `invalid_checkpoint`.
std::string checkpoint_in(const std::string& path);

/// Whether a path means a safetensors file: it is a file, or its name ends like
/// one's. Throws `io` if this can't be found out.
bool is_tensor_file(const std::string& path);

/// The tensors of a checkpoint, a folder of them, or a safetensors file.
/// Checkpoints are first compared with their sums; `optimizer`: with its state.
/// Throws `io` and `invalid_checkpoint`.
parameter_list stored_tensors(const std::string& path, bool optimizer = false);

/// A model's name and options as texts, for manifests and files' metadata.
std::map<std::string, std::string> model_texts(const model_flags& flags,
                                               const text_batch_options& data,
                                               const built_model& model);
/// Those that are stored at a path; empty if none are.
std::map<std::string, std::string> stored_texts(const std::string& path);
/// The same as a safetensors file's metadata, besides the usual one.
std::map<std::string, std::string> model_metadata(
  const std::map<std::string, std::string>& model);

/// The flags of a model, which a checkpoint may make superfluous.
struct wanted_model {
  model_flags flags;
  std::vector<std::string> given;           // of the flags, by their long names
  std::int64_t length = 0, vocabulary = 0;  // 0: as the checkpoint says
  at::ScalarType dtype = at::kFloat;        // of a folder's parameters
};

/// The model whose parameters are at a path: as the tensors tell, else the
/// checkpoint, else the flags; and its parameters. Throws `invalid_argument`
/// for a flag that is needed, or that contradicts, and `invalid_checkpoint`
/// where the checkpoint contradicts its tensors.
struct stored_model {
  built_model model;
  text_batch_options data;  // the length of rows, and the vocabulary
  parameter_list parameters;
  std::vector<std::int64_t> text_ends;  // tokens, of a model folder
};
stored_model open_model(const std::string& path, const wanted_model& wanted);

}  // namespace troupe::cli
