// Random values for parameters that have no checkpoint.
#include <algorithm>
#include <vector>

#include "models/random_init.h"

namespace glmtune::models {

void random_parameters(std::span<nn::Parameter* const> parameters, double deviation,
                       std::uint64_t seed, void* stream) {
  constexpr std::int64_t kChunk = std::int64_t{1} << 20;
  std::vector<float> values(static_cast<std::size_t>(kChunk));
  for (const nn::Parameter* p : parameters) {
    const Tensor flat = p->value.reshape({p->value.count()});
    const bool is_vector = p->value.rank == 1;
    for (std::int64_t first = 0; first < flat.count(); first += kChunk) {
      const std::int64_t n = std::min(kChunk, flat.count() - first);
      if (is_vector)
        std::fill_n(values.begin(), n, p->name.ends_with(".weight") ? 1.0F : 0.0F);
      else
        random_normal(seed, p->name, deviation, first, n, values.data());
      const OwnedTensor host({n}, flat.dtype, Device::kCpu);
      dispatch_real(flat.dtype, [&]<class T>(T) {
        for (std::int64_t i = 0; i < n; ++i)
          host.view.as<T>()[i] = static_cast<T>(values[static_cast<std::size_t>(i)]);
      });
      copy_bytes(flat.rows(first, first + n), host, stream);
    }
  }
}

}  // namespace glmtune::models
