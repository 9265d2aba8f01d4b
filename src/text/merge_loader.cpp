#include "text/merge_loader.h"

#include <span>

#include "text/byte_level.h"

namespace glmtune::text {

// Lists are in the order of the joined tokens, with all splits of a token in a row: nearly always
// it is the token of the merge before, or the one after that.
std::int32_t MergeLoader::joined_id(std::string_view bytes) {
  for (const std::int32_t id : {last_joined_, last_joined_ + 1}) {
    if (vocabulary_.has(id) && vocabulary_.bytes(id) == bytes) return last_joined_ = id;
  }
  const std::int32_t id = vocabulary_.find(bytes);
  if (id >= 0) last_joined_ = id;
  return id;
}

void MergeLoader::flush() {
  const auto batch = std::span(batch_).first(count_);
  for (Pending& p : batch) {
    p.bytes.clear();
    p.spelled = append_byte_level(p.left, p.bytes);
    p.left_bytes = p.bytes.size();
    p.spelled = p.spelled && append_byte_level(p.right, p.bytes);
    p.left_hash = hash_bytes(p.left_part());
    p.right_hash = hash_bytes(p.right_part());
    vocabulary_.prefetch_slot(p.left_hash);
    vocabulary_.prefetch_slot(p.right_hash);
  }
  for (const Pending& p : batch) {
    vocabulary_.prefetch_entry(p.left_hash);
    vocabulary_.prefetch_entry(p.right_hash);
  }
  for (Pending& p : batch) {
    p.left_id = vocabulary_.find(p.left_part(), p.left_hash);
    p.right_id = vocabulary_.find(p.right_part(), p.right_hash);
    merges_.prefetch(p.left_id, p.right_id);
  }
  for (const Pending& p : batch) {
    const std::int32_t joined = joined_id(p.bytes);
    if (p.spelled && p.left_id >= 0 && p.right_id >= 0 && joined >= 0) {
      merges_.add(p.left_id, p.right_id, {rank_, joined});
    } else {
      missing_(rank_, p.left, p.right);
    }
    ++rank_;
  }
  count_ = 0;
}

}  // namespace glmtune::text
