#include "data/reasoning.h"

namespace glmtune::data {
namespace {

constexpr std::string_view kThink = "<think>";
constexpr std::string_view kEndThink = "</think>";
constexpr std::string_view kSpace = " \t\r\n";

std::string_view trim_end(std::string_view s) {
  const std::size_t last = s.find_last_not_of(kSpace);
  return last == std::string_view::npos ? std::string_view() : s.substr(0, last + 1);
}

std::string_view trim(std::string_view s) {
  const std::size_t first = s.find_first_not_of(kSpace);
  return first == std::string_view::npos ? std::string_view() : trim_end(s.substr(first));
}

// "</think>" as the template wrote it, else as the text spells it.
std::size_t find_close(const RenderedView& view, std::size_t from, std::size_t end) {
  const std::string_view text = view.text().substr(0, end);
  const std::size_t first = text.find(kEndThink, from);
  for (std::size_t at = first; at != std::string_view::npos; at = text.find(kEndThink, at + 1)) {
    if (view.frame_at(at)) return at;
  }
  return first;
}

// Think tags where the text begins; begin == end: there are none.
Reasoning between_tags(const RenderedView& view, std::size_t own, std::size_t end) {
  const std::string_view text = view.text().substr(0, end);
  std::size_t inner = std::min(text.find_first_not_of(kSpace, own), end);
  std::size_t begin = inner;
  if (text.substr(inner).starts_with(kThink)) {
    inner += kThink.size();
  } else if (trim_end(text.substr(0, own)).ends_with(kThink)) {
    begin = inner = own;
  } else if (!text.substr(inner).starts_with(kEndThink)) {
    return {};
  }
  const std::size_t close = find_close(view, inner, end);
  if (close == std::string_view::npos) return {};
  const bool empty = trim(text.substr(inner, close - inner)).empty();
  return {empty ? own : begin, close + kEndThink.size(), empty};
}

// Where the template's text before the reasoning opens it: all of it at the begin of a turn,
// otherwise its last tag.
std::size_t opening(const RenderedView& view, std::size_t own, std::size_t begin) {
  const std::size_t from = view.last_text(own, begin);
  const std::string_view before = view.text().substr(from, begin - from);
  const std::size_t at = from > own ? before.find_last_of("<[") : before.find_first_not_of(kSpace);
  return at == std::string_view::npos ? begin : from + at;
}

// Where the template's text behind the reasoning has closed it: behind its first tag, or all of it.
std::size_t closing(const RenderedView& view, std::size_t from, std::size_t end) {
  const std::string_view behind =
      trim_end(view.text().substr(from, view.first_text(from, end) - from));
  const std::size_t tag = behind.find_first_of(">]");
  return from + (tag == std::string_view::npos ? behind.size() : tag + 1);
}

}  // namespace

std::vector<Reasoning> find_reasoning(const RenderedView& view, std::size_t begin,
                                      std::size_t end) {
  std::vector<Reasoning> found;
  const Reasoning tags = between_tags(view, begin, end);
  if (tags.begin < tags.end) found.push_back(tags);
  std::size_t from = std::max(begin, tags.end);
  bool goes_on = false;  // parts that the template joins with a text of its own are one
  while ((from = view.first_text(from, end)) < end) {
    const text::Segment& s = *view.segment_at(from);
    const std::size_t text_begin = from;
    from = std::min(s.end, end);
    if (s.field == text::Field::kReasoningContent) {
      if (!goes_on) found.push_back({.begin = opening(view, begin, text_begin)});
      found.back().end = closing(view, from, end);
    }
    goes_on = s.field == text::Field::kReasoningContent;
  }
  return found;
}

bool has_reasoning_field(const io::Value& message) {
  for (const auto& [key, value] : message.as_object()) {
    if (text::field_of(key) == text::Field::kReasoningContent && value.is_string() &&
        !trim(value.as_string()).empty())
      return true;
  }
  return false;
}

std::string_view inline_reasoning(const io::Value& message) {
  const io::Value* content = message.find("content");
  if (content == nullptr || !content->is_string()) return {};
  const std::string_view text = content->as_string();
  const std::size_t close = text.find(kEndThink);
  if (close == std::string_view::npos) return {};
  const std::string_view before = text.substr(0, close);
  const std::size_t open = before.rfind(kThink);
  return trim(open == std::string_view::npos ? before : before.substr(open + kThink.size()));
}

}  // namespace glmtune::data
