// The texts of values: Python's repr, and json.dumps.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/cat.h"
#include "text/template_value.h"
#include "text/unicode.h"

namespace glmtune::text::jinja {
namespace {

constexpr int kMaxDepth = 900;

void guard(int depth) {
  if (depth > kMaxDepth) raise("RecursionError", "values are nested too deeply");
}

std::string float_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d > 0 ? "inf" : "-inf";
  return io::to_json(io::Value(d));
}

std::string escaped(const char* format, char32_t code) {
  char buffer[16];
  std::snprintf(buffer, sizeof buffer, format, static_cast<unsigned>(code));
  return buffer;
}

std::string string_repr(std::string_view text) {
  const bool doubled =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char quote = doubled ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t i = 0; i < text.size();) {
    const Decoded d = decode_utf8(text, i);
    if (d.code == static_cast<unsigned char>(quote) || d.code == '\\') {
      out += '\\';
      out += static_cast<char>(d.code);
    } else if (d.code == '\n') {
      out += "\\n";
    } else if (d.code == '\r') {
      out += "\\r";
    } else if (d.code == '\t') {
      out += "\\t";
    } else if (d.code != kInvalidCode && !is_printable(d.code)) {
      out += escaped(d.code < 0x100 ? "\\x%02x" : d.code < 0x10000 ? "\\u%04x" : "\\U%08x", d.code);
    } else {
      out += text.substr(i, d.length);
    }
    i += d.length;
  }
  return out + quote;
}

class JsonDumper {
 public:
  JsonDumper(Heap& heap, const JsonOptions& options) : heap_(heap), options_(options) {}
  std::string take() { return std::move(out_); }

  void value(const Val& v, int depth) {
    guard(depth);
    heap_.step();
    if ((out_.size() & 0xFFFF) == 0) heap_.expect(out_.size());
    switch (v.kind) {
      case Kind::kNone:
        out_ += "null";
        return;
      case Kind::kBool:
        out_ += v.boolean ? "true" : "false";
        return;
      case Kind::kInt:
        out_ += std::to_string(v.integer);
        return;
      case Kind::kFloat:
        out_ += io::to_json(io::Value(v.number));
        return;
      case Kind::kString:
        string(v.string().text);
        return;
      case Kind::kList:
      case Kind::kTuple:
        if (v.is_range()) break;
        array(v, depth);
        return;
      case Kind::kDict:
        object(v, depth);
        return;
      default:
        break;
    }
    raise("TypeError", cat("Object of type ", type_name(v), " is not JSON serializable"));
  }

 private:
  void string(const std::string& text) {
    heap_.step(text.size() / 64);
    out_ += io::to_json(io::Value(text), {.ensure_ascii = options_.ensure_ascii});
  }

  void line(int depth) {
    if (!options_.indented) return;
    heap_.expect(out_.size() + options_.indent.size() * static_cast<std::size_t>(depth));
    out_ += '\n';
    for (int i = 0; i < depth; ++i) out_ += options_.indent;
  }

  void array(const Val& v, int depth) {
    const auto& items = v.list().items;
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += options_.item_separator;
      line(depth + 1);
      value(items[i], depth + 1);
    }
    line(depth);
    out_ += ']';
  }

  std::string key(const Val& k) const {
    switch (k.kind) {
      case Kind::kString:
        return k.string().text;
      case Kind::kBool:
        return k.boolean ? "true" : "false";
      case Kind::kNone:
        return "null";
      case Kind::kInt:
        return std::to_string(k.integer);
      case Kind::kFloat:
        return io::to_json(io::Value(k.number));
      default:
        raise("TypeError", cat("keys must be str, int, float, bool or None, not ", type_name(k)));
    }
  }

  void object(const Val& v, int depth) {
    std::vector<const std::pair<Val, Val>*> items;
    v.dict().read_all();
    for (const auto& item : v.dict().items) items.push_back(&item);
    if (items.empty()) {
      out_ += "{}";
      return;
    }
    if (options_.sort_keys) {
      std::stable_sort(items.begin(), items.end(), [&](const auto* a, const auto* b) {
        return compare(heap_, a->first, b->first, "<") < 0;
      });
    }
    out_ += '{';
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += options_.item_separator;
      line(depth + 1);
      string(key(items[i]->first));
      out_ += options_.key_separator;
      value(items[i]->second, depth + 1);
    }
    line(depth);
    out_ += '}';
  }

  Heap& heap_;
  const JsonOptions& options_;
  std::string out_;
};

}  // namespace

std::string repr(Heap& heap, const Val& v, int depth) {
  guard(depth);
  heap.step();
  const auto joined = [&](std::string open, std::string_view close) {
    const auto& items = v.list().items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) open += ", ";
      open += repr(heap, items[i], depth + 1);
    }
    if (v.is(Kind::kTuple) && items.size() == 1) open += ',';
    return open.append(close);
  };
  switch (v.kind) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return v.boolean ? "True" : "False";
    case Kind::kInt:
      return std::to_string(v.integer);
    case Kind::kFloat:
      return float_text(v.number);
    case Kind::kString:
      return string_repr(v.string().text);
    case Kind::kList:
      if (v.is_range()) {
        const auto& r = static_cast<const RangeObject&>(v.list());
        return cat("range(", r.begin, ", ", r.end, r.step == 1 ? "" : cat(", ", r.step), ")");
      }
      return joined("[", "]");
    case Kind::kTuple:
      return joined("(", ")");
    case Kind::kView:
      return joined(cat(v.list().name, "(["), "])");
    case Kind::kDict: {
      v.dict().read_all();
      std::string out = "{";
      for (const auto& [key, value] : v.dict().items) {
        if (out.size() > 1) out += ", ";
        out += repr(heap, key, depth + 1);
        out += ": ";
        out += repr(heap, value, depth + 1);
      }
      return out + "}";
    }
    case Kind::kNamespace: {
      auto& ns = static_cast<NamespaceObject&>(*v.object);
      if (std::exchange(ns.printing, true)) return "<Namespace {...}>";
      std::string out;
      for (const auto& [name, value] : ns.items) {
        out += out.empty() ? "<Namespace {" : ", ";
        out += string_repr(name);
        out += ": ";
        out += repr(heap, value, depth + 1);
      }
      ns.printing = false;
      return (out.empty() ? "<Namespace {" : out) + "}>";
    }
    default: {
      const std::string text = v.object ? v.object->repr() : "";
      return text.empty() ? cat("<", type_name(v), ">") : text;
    }
  }
}

std::string dump_json(Heap& heap, const Val& v, const JsonOptions& options) {
  JsonDumper dumper(heap, options);
  dumper.value(v, 0);
  return dumper.take();
}

}  // namespace glmtune::text::jinja
