#include "data/mock_dataset.h"

#include "base/cat.h"
#include "base/error.h"
#include "data/shuffle.h"

namespace glmtune::data {

MockDataset::MockDataset(const MockSettings& settings) : settings_(settings) {
  if (settings.vocab_size < 1 || settings.seq_len < 1 || settings.num_samples < 1) {
    fail(cat("mock data set: vocab_size, seq_len and num_samples must be at least 1, found ",
             settings.vocab_size, ", ", settings.seq_len, ", ", settings.num_samples));
  }
  summary_.rows = summary_.samples = summary_.packs = settings.num_samples;
  summary_.tokens = settings.num_samples * settings.seq_len;
  summary_.label_tokens = settings.num_samples * (settings.seq_len - 1);
  summary_.longest = settings.seq_len;
}

Pack MockDataset::pack(std::int64_t number) const {
  SplitMix random(SplitMix(settings_.seed).next() + static_cast<std::uint64_t>(number));
  Pack pack;
  const auto vocab = static_cast<std::uint64_t>(settings_.vocab_size);
  for (std::int64_t t = 0; t < settings_.seq_len; ++t) {
    pack.ids.push_back(static_cast<std::int32_t>(random.below(vocab)));
  }
  pack.labels.assign(pack.ids.begin() + 1, pack.ids.end());
  pack.labels.push_back(kNoLabel);
  pack.bounds.push_back(static_cast<std::int32_t>(settings_.seq_len));
  return pack;
}

std::string MockDataset::fingerprint() const {
  return cat("mock:", settings_.vocab_size, ":", settings_.seq_len, ":", settings_.num_samples, ":",
             settings_.seed);
}

std::string MockDataset::where(std::int64_t pack, std::int64_t /*document*/) const {
  return cat("mock row ", pack);
}

}  // namespace glmtune::data
