#pragma once
// What a forward leaves in the saved arena for the backward.
#include <cstdint>

#include "tensor/context.h"

namespace glmtune::nn {

enum class Keep : std::uint8_t {
  kNothing,
  kSelected,  // what takes long to make per byte (docs/decisions/0008); a forward with kAll before
              // the backward makes the rest
  kAll,
};

// Where a tensor goes that is kept with kAll only, and where a selected one.
inline Arena& arena_of(const Context& ctx, Keep keep) {
  return ctx.keep(keep == Keep::kAll);
}
inline Arena& arena_of_selected(const Context& ctx, Keep keep) {
  return ctx.keep(keep != Keep::kNothing);
}

}  // namespace glmtune::nn
