#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "io/json.h"

namespace glmtune::io {
namespace {

// Python's repr: the shortest digits that read back to the same double; an exponent (of at least
// two digits) below 1e-4 and from 1e16 on; otherwise always a decimal point.
std::string repr(double d) {
  if (std::isnan(d)) return "NaN";
  if (std::isinf(d)) return d > 0 ? "Infinity" : "-Infinity";
  std::array<char, 64> buffer{};
  const auto end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::scientific);
  std::string s(buffer.data(), end.ptr);
  const int exponent = std::atoi(s.c_str() + s.find('e') + 1);
  if (exponent < -4 || exponent >= 16) return s;
  const auto fixed =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), d, std::chars_format::fixed);
  s.assign(buffer.data(), fixed.ptr);
  if (s.find('.') == std::string::npos) s += ".0";
  return s;
}

void append_u(std::string& out, unsigned unit) {
  std::array<char, 8> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "\\u%04x", unit & 0xFFFFU);
  out += buffer.data();
}

// The code point at s[i] of valid UTF-8; i moves past it.
unsigned decode(std::string_view s, std::size_t& i) {
  const auto b0 = static_cast<unsigned char>(s[i]);
  const int extra = b0 >= 0xF0 ? 3 : b0 >= 0xE0 ? 2 : b0 >= 0xC0 ? 1 : 0;
  unsigned code = extra == 0 ? b0 : b0 & (0x3FU >> static_cast<unsigned>(extra));
  ++i;
  for (int k = 0; k < extra && i < s.size(); ++k, ++i) {
    code = code << 6U | (static_cast<unsigned char>(s[i]) & 0x3FU);
  }
  return code;
}

void write_string(std::string& out, std::string_view s, bool ensure_ascii) {
  out.push_back('"');
  for (std::size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (ensure_ascii && c >= 0x7F) {
      const unsigned code = decode(s, i);
      if (code >= 0x10000) {
        append_u(out, 0xD800 + ((code - 0x10000) >> 10U));
        append_u(out, 0xDC00 + ((code - 0x10000) & 0x3FFU));
      } else {
        append_u(out, code);
      }
      continue;
    }
    ++i;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (c < 0x20) {
          append_u(out, c);
        } else {
          out.push_back(static_cast<char>(c));
        }
    }
  }
  out.push_back('"');
}

class Writer {
 public:
  explicit Writer(const JsonStyle& style) : style_(style) {}

  std::string take() { return std::move(out_); }

  void write(const Value& v, int depth) {
    switch (v.kind()) {
      case Value::Kind::kNull:
        out_ += "null";
        return;
      case Value::Kind::kBool:
        out_ += v.as_bool() ? "true" : "false";
        return;
      case Value::Kind::kInt:
        out_ += std::to_string(v.as_int());
        return;
      case Value::Kind::kDouble:
        out_ += repr(v.as_double());
        return;
      case Value::Kind::kString:
        write_string(out_, v.as_string(), style_.ensure_ascii);
        return;
      case Value::Kind::kArray: {
        bool first = true;
        out_.push_back('[');
        for (const Value& item : v.as_array()) {
          separate(first, depth + 1);
          write(item, depth + 1);
        }
        close(first, depth, ']');
        return;
      }
      case Value::Kind::kObject: {
        bool first = true;
        out_.push_back('{');
        for (const auto& [key, member] : v.as_object()) {
          separate(first, depth + 1);
          write_string(out_, key, style_.ensure_ascii);
          out_ += ": ";
          write(member, depth + 1);
        }
        close(first, depth, '}');
        return;
      }
    }
  }

 private:
  void separate(bool& first, int depth) {
    if (!first) out_ += style_.indent < 0 ? ", " : ",";
    first = false;
    new_line(depth);
  }

  void close(bool empty, int depth, char bracket) {
    if (!empty) new_line(depth);
    out_.push_back(bracket);
  }

  void new_line(int depth) {
    if (style_.indent < 0) return;
    out_.push_back('\n');
    out_.append(static_cast<std::size_t>(depth) * static_cast<std::size_t>(style_.indent), ' ');
  }

  JsonStyle style_;
  std::string out_;
};

}  // namespace

std::string to_json(const Value& v, const JsonStyle& style) {
  Writer writer(style);
  writer.write(v, 0);
  return writer.take();
}

}  // namespace glmtune::io
