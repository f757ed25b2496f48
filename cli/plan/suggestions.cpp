#include "troupe/cli/plan/suggestions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "troupe/base/closest_names.hpp"

namespace troupe::cli {

namespace {

/// Names of others for one of our flags. They are in lower case, with dashes,
/// and separated by spaces.
struct peers_names {
  std::string_view theirs;
  std::string_view flag;
  std::string_view advice = {};  // follows "use FLAG"
};

constexpr std::string_view rows_of_step =
  "; a step has --microbatch-size x --microbatches x --data-parallel rows";
constexpr std::string_view sixteen_bits =
  " (16-bit parameters, fp32 master weights), or --autocast (fp32 parameters)";

constexpr peers_names peers_table[] = {
  // batches and steps
  {"batch-size micro-batch-size per-device-train-batch-size local-batch-size "
   "train-micro-batch-size-per-gpu per-gpu-batch-size mbs",
   "--microbatch-size", rows_of_step},
  {"global-batch-size train-batch-size num-microbatches gbs n-microbatches "
   "gradient-accumulation-steps grad-accum-steps "
   "pipeline-parallel-microbatches",
   "--microbatches", rows_of_step},
  {"train-iters max-steps max-iters num-steps iterations max-train-steps "
   "num-iterations train-steps n-steps",
   "--steps"},
  {"num-train-epochs num-epochs max-epochs", "--epochs"},
  {"seq-length sequence-length max-seq-len max-seq-length seq-len block-size "
   "context-length max-length max-position-embeddings n-ctx n-positions",
   "--seq"},
  // the model
  {"num-layers n-layer n-layers num-hidden-layers depth", "--layers"},
  {"hidden-size n-embd embed-dim embedding-dim dim dim-model", "--d-model"},
  {"num-attention-heads n-head n-heads num-heads", "--heads"},
  {"vocab-size padded-vocab-size", "--vocabulary"},
  {"attention-dropout hidden-dropout resid-pdrop attn-pdrop embd-pdrop",
   "--dropout"},
  {"tie-word-embeddings share-embeddings-and-output-weights",
   "--tie-embeddings"},
  {"model-name model-name-or-path pretrained-model-name-or-path", "--model",
   ", which takes a folder of Hugging Face's transformers"},
  {"lora-r", "--lora-rank"},
  // optimization
  {"learning-rate peak-lr", "--lr"},
  {"lr-warmup-iters warmup-steps num-warmup-steps warmup-iters "
   "lr-warmup-steps lr-warmup-fraction warmup-ratio",
   "--warmup", ", in steps"},
  {"lr-decay-style lr-scheduler-type lr-scheduler lr-schedule", "--decay"},
  {"lr-decay-iters lr-decay-steps", "--decay-steps"},
  {"clip-grad max-grad-norm grad-clip clip-grad-norm gradient-clipping "
   "gradient-clip-val max-norm",
   "--clip"},
  {"adam-beta1", "--beta1"},
  {"adam-beta2", "--beta2"},
  {"adam-eps adam-epsilon", "--eps"},
  {"sgd-momentum", "--momentum"},
  {"optim optimizer-type", "--optimizer"},
  {"bf16 bfloat16", "--dtype bf16", sixteen_bits},
  {"fp16 half float16", "--dtype fp16", sixteen_bits},
  {"mixed-precision amp fp16-mixed-precision", "--autocast"},
  {"initial-loss-scale", "--loss-scale"},
  {"optimizer-cpu-offload cpu-offload", "--offload-optimizer"},
  {"manual-seed random-seed rng-seed", "--seed"},
  // the pipeline and its replicas
  {"pipeline-model-parallel-size pipeline-parallel-degree "
   "pipeline-parallel-size "
   "pp pp-size num-stages",
   "--ranks"},
  {"num-virtual-stages-per-pipeline-rank virtual-pipeline-model-parallel-size "
   "num-layers-per-virtual-pipeline-stage",
   "--stages-per-rank"},
  {"pipeline-schedule pipeline-parallel-schedule pipeline-schedule-name",
   "--schedule"},
  {"schedule", "--plan",
   " FILE, as `troupe plan --schedule NAME -o FILE.plan` writes it"},
  {"data-parallel-size data-parallel-replicate-degree dp dp-size",
   "--data-parallel"},
  {"fsdp zero-stage use-distributed-optimizer data-parallel-shard-degree "
   "data-parallel-sharding-strategy",
   "--shard"},
  {"recompute-activations gradient-checkpointing activation-checkpointing "
   "enable-activation-checkpointing recompute-granularity "
   "checkpoint-activations activation-checkpoint",
   "--recompute"},
  {"cpu-offloading enable-activation-offloading", "--offload-activations"},
  {"tensor-model-parallel-size tensor-parallel-size tensor-parallel-degree tp "
   "tp-size",
   "--ranks",
   ", as there is no tensor parallelism; --shard divides parameters"},
  {"context-parallel-size context-parallel-degree cp cp-size", "--slices",
   " with --schedule seq_1f1b, as there is no context parallelism"},
  {"use-cpu no-cuda", "--device", " cpu"},
  {"master-addr master-address rdzv-endpoint", "--rendezvous"},
  {"nproc nproc-per-node num-processes num-gpus", "--processes"},
  {"quiet silent q", "--log-level", " error"},
  // files
  {"data-path train-data-path train-file dataset dataset-name dataset-path "
   "data input train-data",
   "--text"},
  {"save output-dir save-dir checkpoint-dir ckpt-dir save-folder",
   "--checkpoints"},
  {"save-interval save-steps checkpoint-interval save-every",
   "--checkpoint-every"},
  {"load load-dir resume-from-checkpoint resume-from", "--resume"},
  {"save-total-limit keep-latest-k", "--keep"},
  {"eval-interval eval-steps val-interval", "--eval-every"},
  {"eval-iters limit-val-batches", "--validation-microbatches"},
  {"tensorboard-dir logging-dir", "--sink", " tensorboard:FOLDER"},
  // generation
  {"max-new-tokens num-tokens-to-generate out-seq-length", "--max-tokens"},
  {"temp", "--temperature"},
  {"checkpoint-path model-path ckpt-path load", "--checkpoint"},
};

std::string without_dashes(std::string_view name) {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  std::string text{name};
  for (auto& each : text)
    each =
      each == '_' || each == '.'
        ? '-'
        : static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return text;
}

bool contains_word(std::string_view words, std::string_view word) {
  for (std::size_t begin = 0; begin < words.size();) {
    const auto end = std::min(words.find(' ', begin), words.size());
    if (words.substr(begin, end - begin) == word)
      return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::string suggestion(std::string_view word,
                       const std::vector<std::string>& names) {
  const auto similar = did_you_mean(word, names);
  return similar.empty() ? "." : similar;
}

std::string advice_on_peers_flag(std::string_view name,
                                 const std::vector<std::string>& flags) {
  const auto word = without_dashes(name);
  for (const auto& row : peers_table) {
    const std::string flag{row.flag.substr(0, row.flag.find(' '))};
    if (contains_word(row.theirs, word) && std::ranges::count(flags, flag) > 0)
      return fmt::format("use {}{}", row.flag, row.advice);
  }
  return {};
}

std::string advice_on_peers_word(std::string_view word,
                                 const std::vector<std::string>& words) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
    {"bfloat16", "bf16"},
    {"float16", "fp16"},
    {"half", "fp16"},
    {"float32", "fp32"},
    {"float", "fp32"}};
  for (const auto& [theirs, ours] : names)
    if (theirs == word && std::ranges::count(words, ours) > 0)
      return fmt::format("; use {}", ours);
  return {};
}

std::string suggested_flag(std::string_view name,
                           const std::vector<std::string>& flags) {
  const auto advice = advice_on_peers_flag(name, flags);
  return advice.empty() ? suggestion(name, flags) : "; " + advice + ".";
}

}  // namespace troupe::cli
