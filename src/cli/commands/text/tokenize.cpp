// ridgepoint tokenize: text to tokens and back, and the training of a tokenizer.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/descriptions/command.h"
#include "cli/options/choices.h"
#include "cli/options/output.h"
#include "cli/terminal/interrupt.h"
#include "core/files/file.h"
#include "core/seconds_since.h"
#include "core/text/json.h"
#include "core/text/text.h"
#include "core/text/throw_error.h"
#include "core/threads/parallel.h"
#include "interchange/tokenizer/tokenizer.h"
#include "interchange/tokenizer/train_bpe.h"
#include "interchange/tokens/documents.h"
#include "interchange/tokens/token_file.h"

namespace ridgepoint::cli {
namespace {

using tables::Cell;
using tables::Page;
using tables::Table;
using tokenizer::Id;
using tokenizer::Tokenizer;

constexpr auto kBitsNames = enum_names<TokenBits>("auto", "16", "32");

using Clock = std::chrono::steady_clock;

// What became of a file.
struct Encoded {
  std::string path;
  std::size_t documents = 0;
  std::uint64_t bytes = 0;
  std::uint64_t tokens = 0;
  double seconds = 0;
  std::vector<Id> ids;  // where they are printed
};

double ratio(double a, double b) { return b > 0 ? a / b : 0; }

void add_row(Table& table, const Encoded& of) {
  const auto bytes = static_cast<double>(of.bytes);
  const auto tokens = static_cast<double>(of.tokens);
  table.add({of.path, static_cast<std::int64_t>(of.documents), static_cast<std::int64_t>(of.bytes),
             static_cast<std::int64_t>(of.tokens), ratio(bytes, tokens), of.seconds, ratio(tokens, of.seconds)});
}

Table encoded_table(const std::vector<Encoded>& files) {
  Table table;
  table.columns = {{"file", "file"},
                   {"documents", "documents", "{}", tables::Align::by_content, 2},
                   {"bytes", "bytes"},
                   {"tokens", "tokens"},
                   {"bytes_per_token", "bytes/token", "{:.3f}"},
                   {"seconds", "seconds", "{:.3f}", tables::Align::by_content, 1},
                   {"tokens_per_second", "tokens/s", "{:.0f}"}};
  for (const Encoded& file : files) add_row(table, file);
  return table;
}

Page encoded_page(const std::vector<Encoded>& files, const std::string& kind, std::size_t vocabulary, bool has_ids,
                  Format format) {
  Page page;
  Table table = encoded_table(files);
  table.note = fmt::format("tokenizer: {}, vocabulary {}", kind, vocabulary);
  if (has_ids && !is_for_people(format) && format != Format::csv) {
    const Json rows = tables::to_json(table);
    for (std::size_t i = 0; i < files.size(); ++i) {
      Json document = rows[i];
      document["ids"] = files[i].ids;
      page.documents.push_back(dump_json(document));
    }
  }
  page.tables.push_back(std::move(table));
  return page;
}

class Tokenize : public Command {
 public:
  std::string_view name() const override { return "tokenize"; }
  std::string_view summary() const override { return "turn text into tokens and back; train a tokenizer"; }
  std::string_view examples() const override {
    return "ridgepoint tokenize book.txt\n"
           "ridgepoint tokenize book.txt --tokenizer gpt2/tokenizer.json --output book.bin\n"
           "ridgepoint tokenize stories.jsonl --tokenizer llama/tokenizer.model --end-token '</s>' --output "
           "stories.bin\n"
           "ridgepoint tokenize book.txt --tokenizer gpt2 --format jsonl\n"
           "ridgepoint tokenize book.bin --tokenizer gpt2 --decode --output book.txt\n"
           "ridgepoint tokenize book.txt --train 8000 --vocabulary tokenizer.json";
  }
  std::string_view notes() const override {
    return "A text file is one document; a file of JSON Lines (.jsonl) has one in the member \"text\" of each line. "
           "docs/commands/tokenizers.md says which tokenizers are read, and what a file of tokens is.";
  }

  void add_options(CLI::App& app) override {
    const OptionGroup group(app, "Tokens");
    group.add("FILE", files_, "FILE...", "text, or with --decode a file of tokens");
    group.add("--tokenizer", tokenizer_, "FILE",
              "byte, or a file: tokenizer.json, SentencePiece's .model, GPT-2's vocab.json with merges.txt, or a "
              "folder with one of these [byte]");
    group.add("--bits", bits_, "N",
              "bits of a token in a file: 16, 32 or auto, which is 16 where all ids of the vocabulary fit [auto]",
              {kBitsNames.all().begin(), kBitsNames.all().end()}, Takes::one);
    group.add_flag("--decode", decodes_, "make text of a file of tokens");
    group.add_flag("--add-special-tokens", adds_special_tokens_,
                   "put the tokenizer's tokens for begin and end around each document");
    group.add("--end-token", end_token_, "TOKEN", "put this token behind each document");
    add_option_of(app, "threads", threads_, "Tokens");
    const OptionGroup training(app, "Training");
    training.add("--train", train_, "N", "train byte-level BPE on the files, to a vocabulary of this size");
    training.add("--vocabulary", vocabulary_, "FILE", "with --train: write the tokenizer.json to this file");
    training
        .add("--special", special_, "TOKEN",
             "with --train: a token that text has as it is; may be given several times [<|endoftext|>]")
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    const OptionGroup output(app, "Output");
    output.add("--format", output_.format, "NAME",
               "table, markdown, csv, json or jsonl; the last two print the ids too where no --output is given [table]",
               {tables::kFormatNames.all().begin(), tables::kFormatNames.all().end()}, Takes::one);
    output.add("--output", path_, "FILE", "write the tokens to this file; with --decode the text [standard output]");
  }

  int run() override {
    require(!files_.empty(), "no file is given: ridgepoint tokenize FILE");
    require(threads_ >= 0, "--threads: {} is too small; the least is 0", threads_);
    format_ = output_.resolved_format();
    bits_form_ = kBitsNames.parse(bits_, "--bits: '{}' is unknown");
    check_training();
    set_thread_count(threads_);
    for (const std::string* path : {&path_, &vocabulary_}) {
      if (!path->empty()) check_writable(*path);
    }
    if (train_ != 0) {
      train();
    } else if (decodes_) {
      decode();
    } else {
      encode();
    }
    return kExitOk;
  }

 private:
  void check_training() const {
    if (train_ == 0) {
      require(vocabulary_.empty(), "--vocabulary is an option of --train; add it");
      require(special_.empty(), "--special is an option of --train; add it");
      require(!decodes_ || files_.size() == 1, "--decode takes one file of tokens");
      require(!decodes_ || end_token_.empty(), "--end-token is for text; leave it out with --decode");
      return;
    }
    require(train_ > 0, "--train: {} is too small; the least is 1", train_);
    require(!vocabulary_.empty(), "--train: say with --vocabulary FILE where the tokenizer.json goes");
    require(tokenizer_.empty() && path_.empty() && !decodes_,
            "--train makes a tokenizer; leave --tokenizer, --output and --decode out");
  }

  Tokenizer read() const { return tokenizer::read_tokenizer(tokenizer_.empty() ? "byte" : tokenizer_); }

  void encode() const {
    const Tokenizer tokenizer = read();
    const std::size_t bytes_each = token_bytes(bits_form_, tokenizer.vocabulary_size());
    EncodeOptions options{adds_special_tokens_, std::nullopt};
    if (!end_token_.empty()) options.end_token = tokenizer.id_of(end_token_);
    std::optional<OutputFile> output;
    if (!path_.empty()) output.emplace(path_);
    const bool has_ids = !output && (format_ == Format::json || format_ == Format::jsonl);
    std::vector<Encoded> files;
    for (const std::string& path : files_) {
      const Documents documents(path);
      Encoded& file = files.emplace_back(Encoded{path, documents.size(), documents.bytes(), 0, 0, {}});
      Clock::time_point begin = Clock::now();
      encode_documents(documents, tokenizer, options, [&](std::span<const Id> ids) {
        stop_if_interrupted();
        file.tokens += ids.size();
        if (has_ids) file.ids.insert(file.ids.end(), ids.begin(), ids.end());
        if (!output) return;
        // Writing is not part of the rate.
        file.seconds += seconds_since(begin);
        output->write(token_bytes_of(ids, bytes_each));
        begin = Clock::now();
      });
      file.seconds += seconds_since(begin);
    }
    if (output) output->commit();
    write(output_, [&](Format format, std::size_t) {
      return encoded_page(files, tokenizer.kind(), tokenizer.vocabulary_size(), has_ids, format);
    });
  }

  void decode() const {
    const Tokenizer tokenizer = read();
    const TokenFile file(files_[0], bits_form_, tokenizer.vocabulary_size());
    std::vector<Id> ids(file.size());
    file.read(0, ids);
    const std::string text = tokenizer.decode(ids);
    if (!path_.empty()) {
      write_file(path_, text);
    } else if (::isatty(STDOUT_FILENO) != 0) {
      print_output(printable_lines(text) + "\n");
    } else {
      print_output(text);  // a pipe or a file gets the very bytes
    }
  }

  void train() const {
    tokenizer::BpeTrainer trainer(special_.empty() ? std::vector<std::string>{"<|endoftext|>"} : special_);
    const Clock::time_point begin = Clock::now();
    std::uint64_t bytes = 0;
    for (const std::string& path : files_) {
      const Documents documents(path);
      bytes += documents.bytes();
      for (std::size_t i = 0; i < documents.size(); ++i) {
        stop_if_interrupted();
        try {
          trainer.add(documents[i]);
        } catch (const Error& error) {
          throw_error(error.kind(), "'{}': {}", path, error.what());
        }
      }
    }
    const tokenizer::TrainedBpe trained = trainer.train(static_cast<std::size_t>(train_));
    const double seconds = seconds_since(begin);
    write_file(vocabulary_, to_tokenizer_json(trained));
    write(output_, [&](Format, std::size_t) {
      Page page;
      Table& table = page.tables.emplace_back();
      table.columns = {{"vocabulary", "vocabulary"},
                       {"merges", "merges"},
                       {"words", "distinct words"},
                       {"bytes", "bytes"},
                       {"seconds", "seconds", "{:.3f}"}};
      table.add({static_cast<std::int64_t>(trained.special_tokens.size() + trained.tokens.size()),
                 static_cast<std::int64_t>(trained.merges.size()), static_cast<std::int64_t>(trainer.distinct_words()),
                 static_cast<std::int64_t>(bytes), seconds});
      return page;
    });
  }

  std::vector<std::string> files_, special_;
  std::string tokenizer_, bits_ = "auto", end_token_, vocabulary_, path_;
  bool decodes_ = false, adds_special_tokens_ = false;
  int threads_ = 0;
  std::int64_t train_ = 0;
  Format format_ = Format::table;
  TokenBits bits_form_ = TokenBits::usual;
  OutputOptions output_;
};

}  // namespace

std::unique_ptr<Command> make_tokenize() { return std::make_unique<Tokenize>(); }

}  // namespace ridgepoint::cli
