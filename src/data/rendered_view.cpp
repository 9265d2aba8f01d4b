#include "data/rendered_view.h"

namespace glmtune::data {

using text::Segment;

std::size_t RenderedView::token_at(std::size_t byte) const {
  const auto it =
      std::lower_bound(tokens_.offsets.begin(), tokens_.offsets.end(), byte,
                       [](const text::ByteRange& r, std::size_t at) { return r.begin < at; });
  return static_cast<std::size_t>(it - tokens_.offsets.begin());
}

// The segment that holds a byte, or the one behind it.
std::vector<Segment>::const_iterator RenderedView::segment_from(std::size_t byte) const {
  return std::upper_bound(rendered_.segments.begin(), rendered_.segments.end(), byte,
                          [](std::size_t at, const Segment& s) { return at < s.end; });
}

const Segment* RenderedView::segment_at(std::size_t byte) const {
  const auto it = segment_from(byte);
  return it == rendered_.segments.end() ? nullptr : &*it;
}

bool RenderedView::frame_at(std::size_t byte) const {
  const Segment* s = segment_at(byte);
  return s != nullptr && !is_text(*s);
}

std::size_t RenderedView::first_text(std::size_t begin, std::size_t end) const {
  for (auto s = segment_from(begin); s != rendered_.segments.end() && s->begin < end; ++s) {
    if (is_text(*s) && s->begin < s->end) return std::max(s->begin, begin);
  }
  return end;
}

std::size_t RenderedView::last_text(std::size_t begin, std::size_t end) const {
  std::size_t last = begin;
  for (auto s = segment_from(begin); s != rendered_.segments.end() && s->begin < end; ++s) {
    if (is_text(*s)) last = std::min(s->end, end);
  }
  return last;
}

bool RenderedView::control_token(std::size_t token) const {
  if (token >= size() || tokenizer_.added_token(id(token)) == nullptr) return false;
  const Segment* s = segment_at(bytes(token).begin);
  return s != nullptr && s->origin != text::Origin::kData;
}

std::optional<std::size_t> RenderedView::last_control_token(std::size_t begin,
                                                            std::size_t end) const {
  const std::size_t first = token_at(last_text(begin, end));
  for (std::size_t t = token_at(end); t > first; --t) {
    if (control_token(t - 1)) return t - 1;
  }
  return std::nullopt;
}

}  // namespace glmtune::data
