#include "train/run_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "train/log.h"

namespace glmtune::train {
namespace {

RowSize row_size(const data::PackSource& source, std::int64_t batch_size, const char* key) {
  const std::int64_t tokens = std::max<std::int64_t>(1, source.max_tokens());
  const std::int64_t packs = std::min(batch_size, source.size().value_or(kLongestRow));
  if (packs > kLongestRow / tokens)
    fail(cat("a row of ", packs, " packs of ", tokens, " tokens is longer than ", kLongestRow,
             " tokens: use a smaller ", key, " or shorter samples"));
  return {.packs = packs,
          .tokens = tokens,
          .longest_document = source.summary().longest,
          .most_documents = source.most_documents()};
}

}  // namespace

RunRows run_rows(const Recipe& recipe, const RunData& data, std::int64_t local_batch_size) {
  RunRows rows(row_size(*data.source, local_batch_size, "step_scheduler.local_batch_size"));
  for (const ValidationSet& set : data.validation)
    rows.validation.push_back(
        row_size(*set.source, recipe.validation_dataloader.batch_size.value_or(local_batch_size),
                 "validation_dataloader.batch_size"));
  return rows;
}

PlannedMemory check_memory(const Recipe& recipe, const RunModel& model, const RunData& data,
                           Device device) {
  const auto rows_of = [&](std::int64_t packs) { return run_rows(recipe, data, packs); };
  const RunRows rows = rows_of(recipe.step_scheduler.local_batch_size);
  const MemoryEstimate e = estimate_memory(model.config, recipe, model.dtype, rows, {}, device);
  const std::uint64_t available = available_memory(device);
  const PlannedMemory planned{.planned = e.total(), .free = available};
  if (e.total() <= available) return planned;
  const std::string advice =
      memory_advice(model.config, recipe, model.dtype, rows_of, device, available);
  const std::string text =
      cat("not enough memory: ", io::human_bytes(e.total()), " needed (",
          io::human_bytes(e.weights), " weights, ", io::human_bytes(e.gradients), " gradients, ",
          io::human_bytes(e.optimizer), " optimizer state, ", io::human_bytes(e.saved + e.scratch),
          " activations of a row of ", rows.training.row_tokens(), " tokens), ",
          io::human_bytes(available), " available; needs less: ", advice,
          advice.empty() ? "" : ", ", "a smaller packed_sequence.packed_sequence_size");
  // The CPU's estimate of what is free is rough: other processes and the page cache share it.
  if (device == Device::kCuda) fail_machine(text);
  log_warning(text);
  return planned;
}

std::string device_memory_line(const PlannedMemory& planned, std::uint64_t free_now) {
  return cat("GPU memory: ", io::human_bytes(planned.free - std::min(planned.free, free_now)),
             " in use, ", io::human_bytes(planned.planned), " planned, ",
             io::human_bytes(planned.free), " were free");
}

void reserve_memory(Engine& engine, Optimizer& optimizer, const Recipe& recipe, const RunData& data,
                    Device device) {
  const RunRows rows = run_rows(recipe, data, recipe.step_scheduler.local_batch_size);
  MemoryPlan plan = plan_rows(engine, recipe, rows);
  plan.scratch = std::max(plan.scratch, optimizer.scratch_bytes(device));
  engine.reserve(plan);
  log_info(fmt::format("activations: {} kept for the backward, {} scratch, for a row of {} tokens",
                       io::human_bytes(plan.saved), io::human_bytes(plan.scratch),
                       rows.training.row_tokens()));
}

}  // namespace glmtune::train
