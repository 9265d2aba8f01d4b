#include "data/dataset.h"

#include "base/cat.h"
#include "base/error.h"
#include "data/mock_dataset.h"
#include "data/pretokenized_dataset.h"

namespace glmtune::data {
namespace {

class Opener {
 public:
  Opener(const PackingSettings& packing, const TextTools& tools)
      : packing_(packing), tools_(tools) {}

  std::unique_ptr<PackSource> operator()(const MockSettings& settings) const {
    not_packed("mock");
    return std::make_unique<MockDataset>(settings);
  }

  std::unique_ptr<PackSource> operator()(const PretokenizedSettings& settings) const {
    not_packed("pretokenised");
    return std::make_unique<PretokenizedDataset>(settings, tools_.vocab_size);
  }

  template <class Settings>
  std::unique_ptr<PackSource> operator()(const Settings& /*settings*/) const {
    fail("dataset: this kind of data set cannot be read yet");
  }

 private:
  void not_packed(const char* kind) const {
    if (packing_.packed_sequence_size > 0) {
      fail(cat("packed_sequence.packed_sequence_size ", packing_.packed_sequence_size,
               ": rows of a ", kind, " data set are packs already; set it to 0"));
    }
  }

  const PackingSettings& packing_;
  const TextTools& tools_;
};

}  // namespace

std::unique_ptr<PackSource> open_dataset(const DatasetSettings& settings,
                                         const PackingSettings& packing, const TextTools& tools,
                                         const Progress& /*progress*/) {
  return std::visit(Opener(packing, tools), settings);
}

}  // namespace glmtune::data
