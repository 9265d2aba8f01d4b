// Filters that go over a sequence.
#include <algorithm>

#include "base/cat.h"
#include "text/template_filter.h"

namespace glmtune::text::jinja {
namespace {

// "a.b.0" looked up step by step; whole numbers are positions.
Val look_up(Runtime& rt, const Val& v, const Val& path) {
  if (!path.is(Kind::kString)) return item(rt.heap, v, path);
  Val current = v;
  const std::string& text = path.string().text;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool position = !part.empty() && part.size() < 10 &&
                          part.find_first_not_of("0123456789") == std::string::npos;
    current =
        item(rt.heap, current, position ? integer(std::stoll(part)) : plain_string(&rt.heap, part));
    begin = end + 1;
  }
  return current;
}

Val key_of(Runtime& rt, const Val& v, const Val* path, bool fold_case) {
  Val key = path != nullptr ? look_up(rt, v, *path) : v;
  if (fold_case && key.is(Kind::kString)) key = change_case(rt.heap, key, Case::kLower);
  return key;
}

Val list_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "list", {});
  std::vector<Val> items = elements(rt.heap, v)->items;
  rt.heap.step(items.size() / 8);
  return list(rt.heap, std::move(items));
}

Val first(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "first", {});
  const auto items = elements(rt.heap, v);
  return items->items.empty() ? undefined("No first item, sequence was empty.")
                              : items->items.front();
}

Val last(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "last", {});
  if (v.is(Kind::kIterator)) {
    raise("TypeError", cat("'", type_name(v), "' object is not reversible"));
  }
  const auto items = elements(rt.heap, v);
  return items->items.empty() ? undefined("No last item, sequence was empty.")
                              : items->items.back();
}

Val join_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "join", {"d", "attribute"});
  const Val separator = p[0] != nullptr ? to_string(rt.heap, *p[0]) : plain_string(&rt.heap, "");
  std::vector<Val> items = elements(rt.heap, v)->items;
  if (const Val* path = p.given(1)) {
    for (Val& x : items) x = look_up(rt, x, *path);
  }
  return join(rt.heap, separator, items);
}

Val reverse(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "reverse", {});
  std::vector<Val> items = elements(rt.heap, v)->items;
  rt.heap.step(items.size() / 8);
  std::reverse(items.begin(), items.end());
  if (v.is(Kind::kString)) return join(rt.heap, plain_string(&rt.heap, ""), items);
  return list(rt.heap, std::move(items), Kind::kIterator, "list_reverseiterator");
}

void stable_sort(Runtime& rt, std::vector<std::pair<Val, Val>>& keyed, bool reversed) {
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& a, const auto& b) {
    return compare(rt.heap, reversed ? b.first : a.first, reversed ? a.first : b.first, "<") < 0;
  });
}

// A list of the values in the order of their keys.
Val sorted(Runtime& rt, std::vector<std::pair<Val, Val>> keyed, bool reversed) {
  stable_sort(rt, keyed, reversed);
  std::vector<Val> out;
  out.reserve(keyed.size());
  for (auto& [key, x] : keyed) out.push_back(std::move(x));
  return list(rt.heap, std::move(out));
}

Val sort(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "sort", {"reverse", "case_sensitive", "attribute"});
  std::vector<Val> paths;  // several with commas
  if (const Val* path = p.given(2)) {
    const Val comma = plain_string(&rt.heap, ",");
    paths = path->is(Kind::kString) ? split(rt.heap, *path, &comma, -1, false)
                                    : std::vector<Val>{*path};
  }
  std::vector<std::pair<Val, Val>> keyed;
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    // Keys are compared as lists: two missing attributes are equal, not an error.
    std::vector<Val> keys;
    keys.reserve(paths.size() + 1);
    for (const Val& path : paths) keys.push_back(key_of(rt, x, &path, !p.flag(1, false)));
    if (paths.empty()) keys.push_back(key_of(rt, x, nullptr, !p.flag(1, false)));
    keyed.emplace_back(list(rt.heap, std::move(keys)), x);
  }
  return sorted(rt, std::move(keyed), p.flag(0, false));
}

Val dictsort(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "dictsort", {"case_sensitive", "by", "reverse"});
  const std::string by = p[1] != nullptr ? p.string(1).string().text : "key";
  if (by != "key" && by != "value") raise("FilterArgumentError", "dictsort: by is key or value");
  if (v.is(Kind::kUndefined)) undefined_error(v);
  if (!v.is(Kind::kDict)) raise("TypeError", "dictsort needs a mapping");
  std::vector<std::pair<Val, Val>> keyed;
  v.dict().read_all();
  for (const auto& [key, value] : v.dict().items) {
    keyed.emplace_back(key_of(rt, by == "key" ? key : value, nullptr, !p.flag(0, false)),
                       list(rt.heap, {key, value}, Kind::kTuple));
  }
  return sorted(rt, std::move(keyed), p.flag(2, false));
}

Val unique(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "unique", {"case_sensitive", "attribute"});
  std::vector<Val> keys, out;
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    Val key = key_of(rt, x, p.given(1), !p.flag(0, false));
    require_hashable(rt.heap, key);
    const bool seen = std::any_of(keys.begin(), keys.end(),
                                  [&](const Val& k) { return equals(rt.heap, k, key); });
    if (seen) continue;
    keys.push_back(std::move(key));
    out.push_back(x);
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}

template <bool kLargest>
Val extreme(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, kLargest ? "max" : "min", {"case_sensitive", "attribute"});
  const auto items = elements(rt.heap, v);
  if (items->items.empty()) return undefined("No aggregated item, sequence was empty.");
  const Val* best = nullptr;
  Val best_key;
  for (const Val& x : items->items) {
    Val key = key_of(rt, x, p.given(1), !p.flag(0, false));
    if (best != nullptr && (kLargest ? compare(rt.heap, key, best_key, ">") <= 0
                                     : compare(rt.heap, key, best_key, "<") >= 0)) {
      continue;
    }
    best = &x;
    best_key = std::move(key);
  }
  check(best != nullptr, "min and max of nothing");
  return *best;
}

Val sum(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "sum", {"attribute", "start"});
  Val total = p[1] != nullptr ? *p[1] : integer(0);
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    total = binary(rt.heap, '+', total, p.given(0) != nullptr ? look_up(rt, x, *p.given(0)) : x);
  }
  return total;
}

Args rest_of(const Args& args, std::size_t from) {
  Args rest;
  rest.positional.assign(
      args.positional.begin() + static_cast<std::ptrdiff_t>(std::min(from, args.positional.size())),
      args.positional.end());
  rest.named = args.named;
  return rest;
}

Val map(Runtime& rt, const Val& v, const Args& args) {
  std::vector<Val> out;
  // Jinja does not even look at what is false, so that `none | map(...)` is empty.
  if (!truth(v)) return list(rt.heap, std::move(out), Kind::kIterator);
  const bool by_attribute =
      args.positional.empty() && std::any_of(args.named.begin(), args.named.end(),
                                             [](const auto& a) { return a.first == "attribute"; });
  if (by_attribute) {
    Parameters p(args, "map", {"attribute", "default"});
    const auto all = elements(rt.heap, v);
    for (const Val& x : all->items) {
      Val found = look_up(rt, x, p.required(0));
      if (found.is(Kind::kUndefined) && p[1] != nullptr)
        out.push_back(*p[1]);
      else
        out.push_back(std::move(found));
    }
  } else {
    if (args.positional.empty() || !args.positional[0].is(Kind::kString)) {
      raise("FilterArgumentError", "map requires a filter argument");
    }
    const Args rest = rest_of(args, 1);
    const auto all = elements(rt.heap, v);
    for (const Val& x : all->items) {
      out.push_back(apply_filter(rt, args.positional[0].string().text, x, rest));
    }
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}

// select, reject (the element itself is tested) and selectattr, rejectattr (an attribute of it).
Val choose(Runtime& rt, const Val& v, const Args& args, bool keep, bool by_attribute) {
  const std::size_t skip = by_attribute ? 1 : 0;
  if (args.positional.size() < skip)
    raise("FilterArgumentError", "Missing parameter for attribute name");
  const bool tested = args.positional.size() > skip;
  const Args rest = rest_of(args, skip + 1);
  std::vector<Val> out;
  if (!truth(v)) return list(rt.heap, std::move(out), Kind::kIterator);  // as in map
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    const Val subject = by_attribute ? look_up(rt, x, args.positional[0]) : x;
    const bool passes =
        tested
            ? apply_test(rt, to_string(rt.heap, args.positional[skip]).string().text, subject, rest)
            : truth(subject);
    if (passes == keep) out.push_back(x);
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}
Val select(Runtime& rt, const Val& v, const Args& a) {
  return choose(rt, v, a, true, false);
}
Val reject(Runtime& rt, const Val& v, const Args& a) {
  return choose(rt, v, a, false, false);
}
Val selectattr(Runtime& rt, const Val& v, const Args& a) {
  return choose(rt, v, a, true, true);
}
Val rejectattr(Runtime& rt, const Val& v, const Args& a) {
  return choose(rt, v, a, false, true);
}

Val batch(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "batch", {"linecount", "fill_with"});
  const std::int64_t size = as_int(p.required(0), "batch");
  if (size < 1) raise("ValueError", "batch: the size must be positive");
  std::vector<Val> out, line;
  const auto close = [&] { out.push_back(list(rt.heap, std::exchange(line, {}))); };
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    if (static_cast<std::int64_t>(line.size()) == size) close();
    line.push_back(x);
  }
  if (!line.empty()) {
    if (p.given(1) != nullptr) {
      rt.heap.expect(static_cast<std::size_t>(std::min<std::int64_t>(size, 1 << 30)) * sizeof(Val));
      while (static_cast<std::int64_t>(line.size()) < size) line.push_back(*p[1]);
    }
    close();
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}

Val slice_filter(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "slice", {"slices", "fill_with"});
  const std::int64_t slices = as_int(p.required(0), "slice");
  if (slices < 1 || slices > 100'000) raise("ValueError", "slice: the number is out of range");
  const auto items = elements(rt.heap, v);
  const auto n = static_cast<std::size_t>(slices);
  const std::size_t each = items->items.size() / n;
  const std::size_t longer = items->items.size() % n;
  std::vector<Val> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < n; ++i) {
    rt.heap.step();
    const std::size_t size = each + (i < longer ? 1 : 0);
    std::vector<Val> part(items->items.begin() + static_cast<std::ptrdiff_t>(at),
                          items->items.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (p.given(1) != nullptr && i >= longer) part.push_back(*p[1]);
    out.push_back(list(rt.heap, std::move(part)));
    at += size;
  }
  return list(rt.heap, std::move(out), Kind::kIterator);
}

Val groupby(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "groupby", {"attribute", "default", "case_sensitive"});
  std::vector<std::pair<Val, Val>> keyed;
  const auto all = elements(rt.heap, v);
  for (const Val& x : all->items) {
    Val key = look_up(rt, x, p.required(0));
    if (key.is(Kind::kUndefined) && p.given(1) != nullptr) key = *p[1];
    keyed.emplace_back(key_of(rt, key, nullptr, !p.flag(2, false)), x);
  }
  stable_sort(rt, keyed, false);
  std::vector<Val> out;
  for (std::size_t i = 0; i < keyed.size();) {
    std::vector<Val> group;
    std::size_t end = i;
    for (; end < keyed.size() && equals(rt.heap, keyed[end].first, keyed[i].first); ++end) {
      group.push_back(keyed[end].second);
    }
    Val key = look_up(rt, keyed[i].second, p.required(0));
    if (key.is(Kind::kUndefined) && p.given(1) != nullptr) key = *p[1];
    out.push_back(list(rt.heap, {key, list(rt.heap, std::move(group))}, Kind::kTuple, kGroupName));
    i = end;
  }
  return list(rt.heap, std::move(out));
}

struct Named {
  std::string_view name;
  FilterFunction filter;
};
constexpr Named kFilters[] = {
    {"batch", batch},        {"dictsort", dictsort}, {"first", first},
    {"groupby", groupby},    {"join", join_filter},  {"last", last},
    {"list", list_filter},   {"map", map},           {"max", extreme<true>},
    {"min", extreme<false>}, {"reject", reject},     {"rejectattr", rejectattr},
    {"reverse", reverse},    {"select", select},     {"selectattr", selectattr},
    {"slice", slice_filter}, {"sort", sort},         {"sum", sum},
    {"unique", unique},
};

}  // namespace

FilterFunction sequence_filter(std::string_view name) {
  for (const Named& f : kFilters) {
    if (f.name == name) return f.filter;
  }
  return nullptr;
}

}  // namespace glmtune::text::jinja
