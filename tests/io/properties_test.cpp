// Properties of JSON and safetensors over generated values; a failing one is shrunk and printed
// with the seed that brings it back.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <map>

#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

// Text of any code points but surrogates, the short encodings and quotes among them often.
rc::Gen<std::string> any_text() {
  const auto code = rc::gen::oneOf(rc::gen::inRange<std::uint32_t>(0, 0x80),
                                   rc::gen::element<std::uint32_t>('"', '\\', 0, 0x7f, 0xfffd),
                                   rc::gen::inRange<std::uint32_t>(0x80, 0xd800),
                                   rc::gen::inRange<std::uint32_t>(0xe000, 0x110000));
  return rc::gen::map(
      rc::gen::container<std::vector<std::uint32_t>>(code),
      [](const std::vector<std::uint32_t>& codes) {
        std::string s;
        for (const std::uint32_t c : codes) {
          if (c < 0x80) {
            s += static_cast<char>(c);
            continue;
          }
          const int extra = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
          const unsigned lead = 0xff00U >> static_cast<unsigned>(extra + 1) & 0xffU;
          s += static_cast<char>(lead | c >> static_cast<unsigned>(6 * extra));
          for (int k = extra - 1; k >= 0; --k)
            s += static_cast<char>(0x80U | (c >> static_cast<unsigned>(6 * k) & 0x3fU));
        }
        return s;
      });
}

// Every finite double, by its bits.
rc::Gen<double> any_double() {
  return rc::gen::suchThat(
      rc::gen::map(rc::gen::arbitrary<std::uint64_t>(),
                   [](std::uint64_t bits) { return std::bit_cast<double>(bits); }),
      [](double d) { return d - d == 0; });
}

rc::Gen<Value> any_value(int depth) {
  auto leaf = rc::gen::oneOf(
      rc::gen::just(Value()),
      rc::gen::map(rc::gen::arbitrary<bool>(), [](bool b) { return Value(b); }),
      rc::gen::map(rc::gen::arbitrary<std::int64_t>(), [](std::int64_t i) { return Value(i); }),
      rc::gen::map(any_double(), [](double d) { return Value(d); }),
      rc::gen::map(any_text(), [](std::string s) { return Value(std::move(s)); }));
  if (depth == 0) return leaf;
  const auto inner = rc::gen::resize(5, any_value(depth - 1));
  return rc::gen::oneOf(
      leaf,
      rc::gen::map(rc::gen::container<std::vector<Value>>(inner),
                   [](Value::Array a) { return Value(std::move(a)); }),
      rc::gen::map(rc::gen::container<std::map<std::string, Value>>(any_text(), inner),
                   [](const std::map<std::string, Value>& m) {
                     return Value(Value::Object(m.begin(), m.end()));
                   }));
}

RC_GTEST_PROP(JsonProperty, EveryDoubleReadsBackWithItsBits, ()) {
  const double d = *any_double();
  const Value back = parse_json(to_json(Value(d)), "text");
  RC_ASSERT(back.kind() == Value::Kind::kDouble);
  RC_ASSERT(std::bit_cast<std::uint64_t>(back.as_double()) == std::bit_cast<std::uint64_t>(d));
}

RC_GTEST_PROP(JsonProperty, EveryIntegerReadsBackAsAnInteger, (std::int64_t i)) {
  const Value back = parse_json(std::to_string(i), "text");
  RC_ASSERT(back.is_int());
  RC_ASSERT(back.as_int() == i);
  RC_ASSERT(to_json(back) == std::to_string(i));
}

RC_GTEST_PROP(JsonProperty, WhatIsWrittenReadsBackInEveryStyle, (bool ensure_ascii)) {
  const Value value = *any_value(3);
  for (const int indent : {-1, 0, 2}) {
    const std::string text = to_json(value, {.indent = indent, .ensure_ascii = ensure_ascii});
    RC_ASSERT(parse_json(text, "text") == value);
  }
}

// Any text either is an error with a position or a value that survives another round.
RC_GTEST_PROP(JsonProperty, DamagedTextIsAnErrorOrAValue, ()) {
  std::string text = to_json(*any_value(2));
  const auto edits = *rc::gen::inRange(1, 4);
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, text.size() + 1);
    if (*rc::gen::arbitrary<bool>() && at < text.size())
      text.erase(at, 1);
    else
      text.insert(at, 1,
                  *rc::gen::element('{', '}', '[', ']', '"', ',', ':', '\\', '0', '-', 'e', '.',
                                    'u', '\x80', '\n'));
  }
  try {
    const Value value = parse_json(text, "here");
    RC_ASSERT(parse_json(to_json(value), "again") == value);
  } catch (const Error& e) {
    RC_ASSERT(std::string(e.what()).starts_with("here"));
  }
}

struct Tensors {
  std::vector<TensorInfo> infos;
  std::vector<std::string> data;
};

Tensors any_tensors() {
  Tensors t;
  const auto names = *rc::gen::unique<std::vector<std::string>>(
      rc::gen::suchThat(any_text(), [](const std::string& s) { return s != "__metadata__"; }));
  for (const std::string& name : names) {
    TensorInfo info{.name = name, .shape = {}};
    info.dtype = *rc::gen::element(DType::kF64, DType::kF32, DType::kBF16, DType::kU8, DType::kI64);
    info.shape = *rc::gen::resize(
        3, rc::gen::container<std::vector<std::int64_t>>(rc::gen::inRange<std::int64_t>(0, 4)));
    std::string bytes(info.bytes(), '\0');
    for (char& c : bytes) c = static_cast<char>(*rc::gen::arbitrary<std::uint8_t>());
    t.infos.push_back(std::move(info));
    t.data.push_back(std::move(bytes));
  }
  return t;
}

void write_tensors(const std::string& path, const Tensors& t) {
  SafetensorsWriter writer(path, t.infos);
  for (const std::string& bytes : t.data) writer.append(bytes.data(), bytes.size());
  writer.finish();
}

RC_GTEST_PROP(SafetensorsProperty, EveryTensorReadsBackWithNameShapeAndBytes, ()) {
  const TempFolder temp;
  const Tensors t = any_tensors();
  write_tensors(temp / "t.safetensors", t);
  const auto file = SafetensorsFile::open(temp / "t.safetensors");
  RC_ASSERT(file.tensors().size() == t.infos.size());
  for (std::size_t i = 0; i < t.infos.size(); ++i) {
    const TensorInfo& found = file.at(t.infos[i].name);
    RC_ASSERT(found.dtype == t.infos[i].dtype);
    RC_ASSERT(found.shape == t.infos[i].shape);
    std::string bytes(found.bytes(), '\0');
    file.read_bytes(found, 0, bytes.data(), bytes.size());
    RC_ASSERT(bytes == t.data[i]);
  }
}

// A header that was changed anywhere is an error that names the file, or describes tensors that lie
// in the file one after the other.
RC_GTEST_PROP(SafetensorsProperty, DamagedHeadersNeverReachBeyondTheFile, ()) {
  const TempFolder temp;
  const std::string path = temp / "t.safetensors";
  write_tensors(path, any_tensors());
  std::string bytes = read_file(path);
  const auto edits = *rc::gen::inRange(1, 5);
  for (int i = 0; i < edits; ++i) {
    char& c = bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())];
    c = *rc::gen::oneOf(rc::gen::inRange<char>('0', '9' + 1), rc::gen::arbitrary<char>());
  }
  if (*rc::gen::inRange(0, 4) == 0) bytes.resize(*rc::gen::inRange<std::size_t>(0, bytes.size()));
  write_file(path, bytes);
  try {
    const auto file = SafetensorsFile::open(path);
    std::uint64_t end = 0;
    for (const TensorInfo& info : file.tensors()) {
      RC_ASSERT(end == 0 || info.offset == end);
      end = info.offset + info.bytes();
      RC_ASSERT(end <= bytes.size());
      std::string data(info.bytes(), '\0');
      file.read_bytes(info, 0, data.data(), data.size());
    }
  } catch (const Error& e) {
    RC_ASSERT(std::string(e.what()).starts_with(path));
  }
}

}  // namespace
}  // namespace glmtune::io
