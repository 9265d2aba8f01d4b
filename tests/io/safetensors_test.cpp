#include "io/safetensors.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "base/error.h"
#include "io/convert.h"
#include "support/message_of.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

std::string with_header(const std::string& header, std::size_t data_bytes) {
  std::string s(8, '\0');
  for (unsigned i = 0; i < 8; ++i) s[i] = static_cast<char>(header.size() >> (8 * i));
  return s + header + std::string(data_bytes, '\1');
}

using test::message_of;

TEST(Safetensors, WhatIsWrittenReadsBack) {
  const TempFolder folder;
  const std::string path = folder / "a.safetensors";
  std::vector<float> a = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint16_t> b = {0x3f80, 0x4000, 0x4040};
  SafetensorsWriter w(path, {{.name = "a", .dtype = DType::kF32, .shape = {2, 3}},
                             {.name = "e", .dtype = DType::kF32, .shape = {0, 7}},
                             {.name = "b", .dtype = DType::kBF16, .shape = {3}},
                             {.name = "s", .dtype = DType::kU8, .shape = {}}});
  w.append(Tensor::dense(a.data(), {2, 3}, DType::kF32, Device::kCpu));
  w.append(b.data(), 6);
  EXPECT_FALSE(fs::exists(path));
  w.append("x", 1);
  w.finish();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
  const auto f = SafetensorsFile::open(path);
  ASSERT_EQ(f.tensors().size(), 4U);
  EXPECT_EQ(f.metadata(), (Metadata{{"format", "pt"}}));
  OwnedTensor t({2, 3}, DType::kF64, Device::kCpu);
  f.read("a", t);
  EXPECT_EQ(t.view.as<double>()[5], 6.0);
  OwnedTensor u({3}, DType::kF32, Device::kCpu);
  f.read("b", u);
  EXPECT_EQ(u.view.as<float>()[2], 3.0F);
  OwnedTensor v({1}, DType::kU8, Device::kCpu);
  f.read("s", v);
  EXPECT_EQ(v.view.as<std::uint8_t>()[0], 'x');
  EXPECT_EQ(message_of([&] { f.read("b", t); }),
            path + ": tensor b: expected shape [2, 3] F64, found [3] BF16");
  EXPECT_EQ(message_of([&] { f.read("c", t); }), path + ": there is no tensor c");
  EXPECT_NE(message_of([&] {
              f.read("s", OwnedTensor({1}, DType::kF32, Device::kCpu));
            }).find("cannot convert U8 to F32"),
            std::string::npos);
}

TEST(Safetensors, BadFilesAreRefusedByName) {
  const TempFolder folder;
  const std::string path = folder / "bad.safetensors";
  const auto message = [&](const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
    return message_of([&] { (void)SafetensorsFile::open(path); });
  };
  const auto says = [&](const std::string& bytes, const std::string& part) {
    const std::string m = message(bytes);
    EXPECT_EQ(m.rfind(path, 0), 0U) << m;
    EXPECT_NE(m.find(part), std::string::npos) << m;
  };
  EXPECT_EQ(message(with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 8)),
            "no error");
  EXPECT_EQ(message(with_header("{}   ", 0)), "no error");
  says("", "truncated");
  says("\x10", "truncated");
  says(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "not a safetensors file");
  says(with_header(std::string(50, ' '), 0).substr(0, 20), "truncated");
  says("version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer");
  says(with_header("[]", 0), "does not begin with '{'");
  says(with_header("{\"t\"", 0), "header: line 1");
  says(with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7),
       "tensor t: ends at byte 8");
  says(with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9),
       "1 bytes follow the last tensor");
  says(with_header(R"({"t":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})", 8),
       "needs 12 bytes");
  says(with_header(R"({"t":{"dtype":"F33","shape":[2],"data_offsets":[0,8]}})", 8), "F33");
  says(with_header(R"({"t":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})", 8), "dimension");
  says(with_header(R"({"t":{"dtype":"U8","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}})",
                   8),
       "larger than the file");
  says(with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}})", 8), "growing");
  says(with_header(R"({"t":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "a hole");
  says(with_header(R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
                   R"("u":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
                   8),
       "tensor u: begins at byte 4 of the data, expected 8 (an overlap)");
  says(with_header(R"({"t":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                   R"("t":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                   2),
       "duplicate key \"t\"");
  says(with_header(R"({"t":1})", 0), "expected an object");
  says(with_header(R"({"__metadata__":{"a":1}})", 0), "__metadata__");
  fs::remove(path);
  EXPECT_NE(message_of([&] { (void)SafetensorsFile::open(path); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              (void)SafetensorsFile::open(folder.path());
            }).find("is a folder; expected a file"),
            std::string::npos);
}

TEST(Safetensors, TheWriterTakesExactlyWhatWasDeclared) {
  const TempFolder folder;
  const std::string path = folder / "w.safetensors";
  {
    SafetensorsWriter w(path, {{.name = "a", .dtype = DType::kU8, .shape = {4}}});
    w.append("abc", 3);
    EXPECT_NE(message_of([&] { w.finish(); }).find("only 3 of the 4"), std::string::npos);
    EXPECT_NE(message_of([&] { w.append("de", 2); }).find("more bytes"), std::string::npos);
  }
  EXPECT_TRUE(fs::is_empty(folder.path()));
  EXPECT_NE(message_of([&] {
              SafetensorsWriter w(path, {{.name = "a", .shape = {1}}, {.name = "a", .shape = {1}}});
            }).find("declared twice"),
            std::string::npos);
}

TEST(Safetensors, AFailedWriteLeavesTheOldFileAndNoRemains) {
  const TempFolder folder;
  const std::string path = folder / "w.safetensors";
  write_file(path, "old");
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = old;
  small.rlim_cur = 100000;
  setrlimit(RLIMIT_FSIZE, &small);
  const std::vector<char> data(200000);
  const std::string m = message_of([&] {
    SafetensorsWriter w(path, {{.name = "a", .dtype = DType::kU8, .shape = {200000}}});
    w.append(data.data(), data.size());
    w.finish();
  });
  setrlimit(RLIMIT_FSIZE, &old);
  EXPECT_NE(m.find(path + ": writing"), std::string::npos) << m;
  EXPECT_NE(m.find("File too large"), std::string::npos) << m;
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 1);
}

TEST(Safetensors, MoreThanTheDiskHoldsIsRefusedBeforeWriting) {
  const TempFolder folder;
  const std::string m = message_of([&] {
    SafetensorsWriter w(folder / "w.safetensors",
                        {{.name = "a", .dtype = DType::kU8, .shape = {std::int64_t{1} << 60}}});
  });
  EXPECT_NE(m.find("are free there"), std::string::npos) << m;
}

TEST(Files, SymlinksAreReplacedInOneStep) {
  const TempFolder folder;
  fs::create_directory(folder / "one");
  fs::create_directory(folder / "two");
  ASSERT_TRUE(replace_symlink(folder / "LATEST", "one"));
  ASSERT_TRUE(replace_symlink(folder / "LATEST", "two"));
  EXPECT_EQ(fs::read_symlink(folder / "LATEST"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 3);
}

TEST(Files, ErrorsNameThePath) {
  const TempFolder folder;
  const std::string path = folder / "no/such/file";
  EXPECT_EQ(message_of([&] { write_file(path, "x"); }).rfind(path, 0), 0U);
  EXPECT_EQ(message_of([&] { (void)read_file(path); }).rfind(path, 0), 0U);
  write_file(folder / "a", std::string(5'000'000, 'a'));
  copy_file(folder / "a", folder / "b");
  EXPECT_EQ(read_file(folder / "a"), read_file(folder / "b"));
  EXPECT_GT(free_bytes(path), 0U);
  EXPECT_EQ(human_bytes(999), "999 bytes");
  EXPECT_EQ(human_bytes(1'507'728'316'928), "1.37 TiB");
  EXPECT_EQ(human_bytes(45'000'000'000), "41.9 GiB");
}

TEST(Convert, EveryF16RoundTripsAndRoundingIsToEven) {
  for (unsigned i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float x = float_from_f16(bits);
    const std::uint16_t back = f16_from_float(x);
    if (x != x) {
      EXPECT_GT(back & 0x7fffU, 0x7c00U);
    } else {
      ASSERT_EQ(back, bits);
    }
  }
  EXPECT_EQ(float_from_f16(0x3c01), 1.0009765625F);
  EXPECT_EQ(f16_from_float(1.00048828125F), 0x3c00);  // half way: to even
  EXPECT_EQ(f16_from_float(1.00146484375F), 0x3c02);  // half way: to even
  EXPECT_EQ(f16_from_float(65519.F), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.F), 0x7c00);
  EXPECT_EQ(f16_from_float(-2.98023223876953125e-8F), 0x8000);  // 2^-25: half way to zero
  EXPECT_EQ(f16_from_float(6.1005353927612305e-5F), 0x0400);    // subnormal that rounds to normal
}

TEST(Convert, F8E4M3) {
  EXPECT_EQ(float_from_f8_e4m3(0x7e), 448.F);
  EXPECT_EQ(float_from_f8_e4m3(0x38), 1.F);
  EXPECT_EQ(float_from_f8_e4m3(0xb9), -1.125F);
  EXPECT_EQ(float_from_f8_e4m3(0x01), 0.001953125F);
  EXPECT_EQ(float_from_f8_e4m3(0x08), 0.015625F);
  EXPECT_NE(float_from_f8_e4m3(0x7f), float_from_f8_e4m3(0x7f));
}

TEST(Convert, ValuesBeyondTheTargetAreErrors) {
  const double big = 70000;
  std::uint16_t half = 0;
  EXPECT_NE(
      message_of([&] { convert_elements(&big, DType::kF64, &half, DType::kF16, 1); }).find("70000"),
      std::string::npos);
  const std::int64_t wide = std::int64_t{1} << 40;
  std::int32_t narrow = 0;
  EXPECT_THROW(convert_elements(&wide, DType::kI64, &narrow, DType::kI32, 1), Error);
  const std::int32_t minus = -100;
  std::int64_t out = 0;
  convert_elements(&minus, DType::kI32, &out, DType::kI64, 1);
  EXPECT_EQ(out, -100);
}

}  // namespace
}  // namespace glmtune::io
