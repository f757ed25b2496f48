#include "troupe/cli/train/train_setup.hpp"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "troupe/base/fail.hpp"
#include "troupe/engine/data/microbatch_source.hpp"
#include "troupe/engine/data/token_file.hpp"

namespace troupe::cli {

namespace {

/// `fixed`: the model alone determines the vocabulary, not a flag.
void require_in_vocabulary(const token_source& tokens, std::int64_t vocabulary,
                           bool fixed) {
  const auto place = first_outside(tokens, vocabulary);
  if (place < 0)
    return;
  std::int64_t id = 0;
  tokens.read(place, 1, &id);
  if (id < 0)
    fail(error_code::invalid_data,
         "{}: token {} has the id {}; ids are numbers from 0 up", tokens.name(),
         place, id);
  const auto advice = fixed
                        ? std::string(
                          "tokenize with this model's tokenizer "
                          "(scripts/tokenize)")
                        : fmt::format("give --vocabulary {} or more", id + 1);
  fail(error_code::invalid_data,
       "{}: token {} has the id {}, which is beyond the vocabulary of {}; {}",
       tokens.name(), place, id, vocabulary, advice);
}

std::vector<std::shared_ptr<const token_source>> open_texts(
  const data_options& o, bool fixed_vocabulary) {
  if (o.text.empty())
    fail(error_code::invalid_argument,
         "no text to train on; give --text FILE (any file will do)");
  std::vector<std::shared_ptr<const token_source>> parts;
  for (const auto& path : o.text)
    parts.push_back(open_tokens(path, o.format));
  for (const auto& part : parts)
    require_in_vocabulary(*part, o.batches.vocabulary, fixed_vocabulary);
  if (o.loss_mask.empty())
    return parts;
  if (o.loss_mask.size() != parts.size())
    fail(error_code::invalid_argument,
         "--loss-mask gives {} files for {} texts; give one for each --text",
         o.loss_mask.size(), parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    parts[i] = with_mask(parts[i], open_mask(o.loss_mask[i]));
  return parts;
}

/// The texts of a mixture; without a mixture, all texts joined into one.
std::vector<std::shared_ptr<const token_source>> texts_of(
  const data_options& o, bool fixed_vocabulary) {
  auto files = open_texts(o, fixed_vocabulary);
  if (!o.mix.empty() && o.mix.size() != files.size())
    fail(error_code::invalid_argument,
         "--mix gives {} weights for {} texts; give one for each --text",
         o.mix.size(), files.size());
  if (o.mix.empty())
    files = {join_tokens(std::move(files))};
  return files;
}

/// Refuses training texts without any token to predict.
void require_labels(const std::vector<weighted_text>& texts,
                    const data_options& o) {
  if (!o.loss_mask.empty()
      && std::ranges::all_of(texts, [&](const weighted_text& text) {
           return rows_with_labels(*text.tokens, o.batches.length, 1).empty();
         }))
    throw error(error_code::invalid_data,
                "--loss-mask: no token to train on is to be predicted; the "
                "masks need a 1 before the part that is held out for "
                "validation (--validation-fraction)");
}

}  // namespace

std::string content_of_text(const std::string& path, const data_options& o) {
  return content_of_tokens(path, o.format);
}

namespace {

std::string content_of_files(const std::vector<std::string>& paths,
                             const data_options& how) {
  std::string content;
  for (const auto& path : paths)
    content += (content.empty() ? "" : ", ") + content_of_text(path, how);
  return content;
}

}  // namespace

void add_data(train_setup& setup, const data_options& o) {
  const auto& batches = o.batches;
  std::vector<weighted_text> training;
  std::vector<std::shared_ptr<const token_source>> held_out_parts;
  std::string sizes;
  for (const auto& text : texts_of(o, setup.model.folder != nullptr)) {
    const auto held_out = static_cast<std::int64_t>(
      static_cast<double>(text->size()) * o.validation_fraction);
    const auto trained = text->size() - held_out;
    const auto weight = o.mix.empty() ? 1 : o.mix[training.size()];
    training.push_back({part_of(text, 0, trained), weight});
    held_out_parts.push_back(part_of(text, trained, held_out));
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ",", trained);
    if (!o.mix.empty())
      sizes += fmt::format("*{}", weight);
  }
  const auto with_documents = [&](auto source) {
    return o.document_end < 0
             ? source
             : with_document_starts(std::move(source), o.document_end,
                                    o.predicts_next_document);
  };
  require_labels(training, o);
  setup.training = with_documents(text_batches(training, batches));
  if (o.mix.empty())
    setup.epoch_rows = rows_of_epoch(training.front().tokens, batches);
  setup.data_settings = {{"microbatch-size", std::to_string(batches.rows)},
                         {"seq", std::to_string(batches.length)},
                         {"seed", std::to_string(batches.seed)},
                         {"text", content_of_files(o.text, o)},
                         {"tokens", sizes}};
  if (!o.loss_mask.empty())
    setup.data_settings.emplace("loss-mask", content_of_files(o.loss_mask, {}));
  if (o.document_end >= 0)
    setup.data_settings.emplace(
      "document-end",
      fmt::format("{}, then {}", o.document_end,
                  o.predicts_next_document ? "predicted" : "ignored"));
  const auto held_out_text = join_tokens(std::move(held_out_parts));
  if (held_out_text->size() < 2)
    return;  // validation needs at least two tokens
  std::vector<std::int64_t> rows;
  if (!o.loss_mask.empty()) {
    rows = rows_with_labels(*held_out_text, batches.length,
                            o.validation_microbatches * batches.rows);
    if (rows.empty()) {
      spdlog::warn(
        "no token of the part that is held out for validation is to be "
        "predicted (--loss-mask), so that there is no validation; let the "
        "texts end with some that are, or give another --validation-fraction");
      return;
    }
  }
  setup.validation =
    with_documents(rows_once(held_out_text, batches, std::move(rows)));
  const auto all = setup.validation->size();
  setup.validation_microbatches = o.validation_microbatches == 0
                                    ? all
                                    : std::min(o.validation_microbatches, all);
}

}  // namespace troupe::cli
