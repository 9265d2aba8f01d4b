// Python's pprint.pformat.
#include <algorithm>

#include "base/cat.h"
#include "text/template_filter.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

constexpr std::int64_t kWidth = 80;
constexpr int kMaxDepth = 800;

std::int64_t characters(std::string_view text) {
  return static_cast<std::int64_t>(count_code_points(text));
}

class PrettyPrinter {
 public:
  explicit PrettyPrinter(Heap& heap) : heap_(heap) {}
  std::string take() { return std::move(out_); }

  // Begins in column `indent`; `allowance` characters must fit behind it.
  void value(const Val& v, std::int64_t indent, std::int64_t allowance, int depth) {
    if (depth > kMaxDepth) raise("RecursionError", "values are nested too deeply");
    const std::string line = one_line(v, depth);
    heap_.expect(out_.size() + line.size());
    if (characters(line) > kWidth - indent - allowance) {
      if (v.is(Kind::kDict)) return dict(v, indent, allowance, depth);
      if (v.is(Kind::kTuple) || (v.is(Kind::kList) && !v.is_range())) {
        return sequence(v, indent, allowance, depth);
      }
      if (v.is(Kind::kString)) return string(v, indent, allowance, depth);
    }
    out_ += line;
  }

 private:
  using Item = std::pair<Val, Val>;

  // By key; keys that do not compare by the names of their types.
  std::vector<const Item*> sorted(const Val& v) {
    v.dict().read_all();
    std::vector<const Item*> items;
    for (const Item& item : v.dict().items) items.push_back(&item);
    std::stable_sort(items.begin(), items.end(), [&](const Item* a, const Item* b) {
      try {
        return compare(heap_, a->first, b->first, "<") < 0;
      } catch (const Raise& e) {
        if (e.kind != "TypeError") throw;
        return type_name(a->first) < type_name(b->first);
      }
    });
    return items;
  }

  std::string one_line(const Val& v, int depth) {
    if (depth > kMaxDepth) raise("RecursionError", "values are nested too deeply");
    heap_.step();
    std::string out;
    if (v.is(Kind::kDict)) {
      for (const Item* item : sorted(v)) {
        out += out.empty() ? "{" : ", ";
        out += one_line(item->first, depth + 1);
        out += ": ";
        out += one_line(item->second, depth + 1);
      }
      return out.empty() ? "{}" : out.append(1, '}');
    }
    const bool tuple = v.is(Kind::kTuple);
    if (!tuple && (!v.is(Kind::kList) || v.is_range())) return repr(heap_, v);
    out += tuple ? '(' : '[';
    for (const Val& item : v.list().items) {
      if (out.size() > 1) out += ", ";
      out += one_line(item, depth + 1);
    }
    if (tuple && v.list().items.size() == 1) out += ',';
    out += tuple ? ')' : ']';
    return out;
  }

  void new_line(std::int64_t indent) {
    heap_.expect(out_.size() + static_cast<std::size_t>(indent));
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent), ' ');
  }

  void dict(const Val& v, std::int64_t indent, std::int64_t allowance, int depth) {
    const auto items = sorted(v);
    out_ += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out_ += ',';
        new_line(indent + 1);
      }
      const std::string key = one_line(items[i]->first, depth + 1);
      out_ += key;
      out_ += ": ";
      value(items[i]->second, indent + 1 + characters(key) + 2,
            i + 1 == items.size() ? allowance + 1 : 1, depth + 1);
    }
    out_ += '}';
  }

  void sequence(const Val& v, std::int64_t indent, std::int64_t allowance, int depth) {
    const auto& items = v.list().items;
    const bool tuple = v.is(Kind::kTuple);
    const std::int64_t end = tuple && items.size() == 1 ? 2 : 1;
    out_ += tuple ? '(' : '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) {
        out_ += ',';
        new_line(indent + 1);
      }
      value(items[i], indent + 1, i + 1 == items.size() ? allowance + end : 1, depth + 1);
    }
    if (tuple && items.size() == 1) out_ += ',';
    out_ += tuple ? ')' : ']';
  }

  // Lines, and words of lines that are too long, one literal each.
  void string(const Val& v, std::int64_t indent, std::int64_t allowance, int depth) {
    const auto lines = split_lines(heap_, v, true);
    if (depth == 1) {
      ++indent;
      ++allowance;
    }
    const auto quoted = [&](std::string_view text) {
      return repr(heap_, plain_string(&heap_, std::string(text)));
    };
    std::vector<std::string> parts;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string& line = lines[i].string().text;
      const bool last = i + 1 == lines.size();
      const auto room = [&](bool end) { return kWidth - indent - (last && end ? allowance : 0); };
      parts.push_back(quoted(line));
      if (characters(parts.back()) <= room(true)) continue;
      parts.pop_back();
      std::string current;
      const auto words = with_space(line);
      for (std::size_t j = 0; j < words.size(); ++j) {
        heap_.step(current.size() / 16 + 1);
        std::string candidate = current + words[j];
        if (characters(quoted(candidate)) > room(j + 1 == words.size())) {
          if (!current.empty()) parts.push_back(quoted(current));
          candidate = words[j];
        }
        current = std::move(candidate);
      }
      if (!current.empty()) parts.push_back(quoted(current));
    }
    if (parts.size() <= 1) {
      out_ += parts.empty() ? "''" : parts[0];
      return;
    }
    if (depth == 1) out_ += '(';
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) new_line(indent);
      out_ += parts[i];
    }
    if (depth == 1) out_ += ')';
  }

  // Words with the white space behind them; white space in front is a word of its own.
  static std::vector<std::string> with_space(const std::string& line) {
    std::vector<std::string> out;
    const auto space = [&](std::size_t i) { return is_python_space(decode_utf8(line, i).code); };
    for (std::size_t i = 0; i < line.size();) {
      std::size_t end = i;
      while (end < line.size() && !space(end)) end += decode_utf8(line, end).length;
      while (end < line.size() && space(end)) end += decode_utf8(line, end).length;
      out.push_back(line.substr(i, end - i));
      i = end;
    }
    return out;
  }

  Heap& heap_;
  std::string out_;
};

}  // namespace

Val pretty_print(Runtime& rt, const Val& v, const Args& args) {
  Parameters p(args, "pprint", {});
  PrettyPrinter printer(rt.heap);
  printer.value(v, 0, 0, 1);
  return plain_string(&rt.heap, printer.take(), whole_source(rt.heap, v));
}

}  // namespace glmtune::text::jinja
