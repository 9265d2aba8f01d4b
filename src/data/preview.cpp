#include "data/preview.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/cat.h"
#include "io/untrusted.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

constexpr std::string_view kReset = "\x1b[0m";
// [trained on][shade]
constexpr std::array<std::array<std::string_view, 2>, 2> kShades{
    {{"\x1b[90m", "\x1b[37m"}, {"\x1b[30;42m", "\x1b[30;102m"}}};
constexpr std::string_view kStopLegend =
    "; \"then\": the token to predict after a row's last one\n";
constexpr std::string_view kOpen = "⟦";
constexpr std::string_view kClose = "⟧";

class Writer {
 public:
  Writer(const text::Tokenizer* tokenizer, bool color) : tokenizer_(tokenizer), color_(color) {
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer);
  }

  void token(std::int32_t id, bool target) {
    const bool known = tokenizer_ != nullptr && id >= 0 && id < tokenizer_->vocab_size();
    if (!known) {
      release(decoder_ ? decoder_->finish() : std::string());
      mark_ = target;
      release(tokenizer_ == nullptr ? cat(id, " ") : cat("<id ", id, ">"));
      return;
    }
    // A character that several tokens share is shown as one piece, under the first one's mark.
    if (!decoder_->unfinished()) mark_ = target;
    const std::string piece = decoder_->push(id);
    release(piece);
    if (!piece.empty() && decoder_->unfinished()) mark_ = target;
  }

  std::string finish() {
    if (decoder_) release(decoder_->finish());
    if (open_) out_ += kClose;
    open_ = false;
    if (color_) out_ += kReset;
    return std::move(out_);
  }

 private:
  void release(const std::string& piece) {
    if (piece.empty()) return;
    const std::string shown = io::printable(piece, io::LineEnds::kKeep);
    if (color_) {
      shade_ ^= 1U;
      // Colour must not run over line ends: a terminal would fill the rest of the line.
      std::size_t at = 0;
      while (at < shown.size()) {
        const std::size_t line = std::min(shown.find('\n', at), shown.size());
        out_ += kShades[mark_ ? 1 : 0][shade_];
        out_ += line == at && line < shown.size() ? std::string("↵") : shown.substr(at, line - at);
        out_ += kReset;
        if (line < shown.size()) out_ += '\n';
        at = line + 1;
      }
      return;
    }
    if (mark_ != open_) out_ += mark_ ? kOpen : kClose;
    open_ = mark_;
    out_ += shown;
  }

  const text::Tokenizer* tokenizer_;
  std::optional<text::StreamDecoder> decoder_;
  bool color_;
  bool open_ = false;
  bool mark_ = false;
  std::size_t shade_ = 0;
  std::string out_;
};

}  // namespace

std::string preview_document(const Pack& pack, std::int64_t document,
                             const text::Tokenizer* tokenizer, const PreviewOptions& options) {
  const auto begin = static_cast<std::size_t>(pack.bounds[static_cast<std::size_t>(document)]);
  const auto end = static_cast<std::size_t>(pack.bounds[static_cast<std::size_t>(document) + 1]);
  const std::size_t shown = std::min(
      end, begin + static_cast<std::size_t>(std::max<std::int64_t>(1, options.max_tokens)));
  Writer writer(tokenizer, options.color);
  for (std::size_t t = begin; t < shown; ++t) {
    writer.token(pack.ids[t], t > begin && pack.labels[t - 1] != kNoLabel);
  }
  std::string out = writer.finish();
  if (shown < end) return out + cat("\n... and ", end - shown, " tokens more");
  if (pack.labels[end - 1] != kNoLabel) {
    Writer stop(tokenizer, options.color);
    stop.token(pack.labels[end - 1], true);
    out += " then " + stop.finish();
  }
  return out;
}

std::string preview(const PackSource& source, const text::Tokenizer* tokenizer,
                    const PreviewOptions& options) {
  std::string out = options.tokens ? "position, id, + trained on, text\n"
                    : options.color
                        ? cat(kShades[1][0], "trained on", kReset, " ", kShades[0][0],
                              "shown, not trained on", kReset, kStopLegend)
                        : cat(kOpen, "trained on", kClose, ", the rest is shown only", kStopLegend);
  if (!options.order.empty()) out += cat("order: ", options.order, "\n");
  std::int64_t last = options.first + options.packs;
  if (source.size()) last = std::min(last, *source.size());
  for (std::int64_t p = options.first; p < last; ++p) {
    const Pack pack = source.pack(p);
    out += cat("\npack ", p, ": ", pack.documents(),
               pack.documents() == 1 ? " document, " : " documents, ", pack.tokens(), " tokens, ",
               pack.label_tokens(), " trained on\n");
    for (std::int64_t d = 0; d < pack.documents(); ++d) {
      const auto length =
          pack.bounds[static_cast<std::size_t>(d) + 1] - pack.bounds[static_cast<std::size_t>(d)];
      out += cat("-- ", source.where(p, d), ", ", length, " tokens\n");
      out += options.tokens ? preview_tokens(pack, d, tokenizer, options)
                            : preview_document(pack, d, tokenizer, options) + "\n";
    }
  }
  return out + "\n" + source.summary().text();
}

}  // namespace glmtune::data
