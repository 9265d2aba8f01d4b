#include "models/hf_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "io/convert.h"
#include "support/checkpoint_builder.h"
#include "support/memory_parameters.h"
#include "support/message_of.h"
#include "support/temp_folder.h"
#include "tensor/memory_backend.h"

namespace glmtune::models {
namespace {

namespace fs = std::filesystem;

const std::string kGolden = std::string(GLMTUNE_FIXTURES) + "/golden/";

using test::message_of;

void expect_says(const std::string& message, std::initializer_list<const char*> parts) {
  for (const char* part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
}

// Opens, loads into memory of `dtype`, lets `change` act, saves.
SaveReport load_and_save(const std::string& from, const std::string& to, DType dtype,
                         const SaveOptions& options = {},
                         const std::function<void(MemoryParameters&)>& change = {}) {
  const HfCheckpoint source = HfCheckpoint::open(from);
  MemoryParameters parameters(source.config(), dtype);
  source.load(parameters.all());
  if (change) change(parameters);
  return source.save(to, parameters.all(), options);
}

// A checkpoint with an MTP layer of its own, random tensors in it.
CheckpointBuilder with_mtp(CheckpointBuilder b, DType dtype) {
  b.config.set("num_nextn_predict_layers", 1);
  unsigned seed = 1;
  for (const TensorSpec& spec : expected_tensors(parse_glm_config(b.config, "config.json"))) {
    if (spec.pass_through) b.tensors[spec.name] = random_tensor(spec.shape, dtype, seed++);
  }
  return b;
}

TEST(HfCheckpoint, LoadThenSaveGivesTheSameFiles) {
  for (const char* name : {"indexshare", "packed"}) {
    const TempFolder out;
    const SaveReport report = load_and_save(kGolden + name, out / "saved", DType::kF32);
    EXPECT_TRUE(report.changes.empty());
    for (const char* file : {"model.safetensors", "config.json", "golden.json"}) {
      EXPECT_EQ(io::read_file(kGolden + name + "/" + file), io::read_file(out / "saved/" + file));
    }
    EXPECT_FALSE(fs::exists(out / "saved/golden.safetensors"));
    EXPECT_EQ(report.copied_files, std::vector<std::string>{"golden.json"});
  }
}

// user_reports 18: tokenizer, template and generation config are copied byte for byte.
TEST(HfCheckpoint, ShardsKeepTheirPlacesAndOtherFilesTheirBytes) {
  const TempFolder folder;
  with_mtp(CheckpointBuilder::from(kGolden + "packed"), DType::kF32).write(folder / "a", 3);
  io::write_file(folder / "a/tokenizer.json", "{\"x\":  1}");
  io::write_file(folder / "a/chat_template.jinja", "{{ x }}\n");
  io::write_file(folder / "a/generation_config.json", "{\"eos_token_id\":[1,2]}");
  io::write_file(folder / "a/tokenizer_config.json", "{ }");
  io::write_file(folder / "a/pytorch_model.bin", "x");
  fs::create_directory(folder / "a/additional_chat_templates");
  io::write_file(folder / "a/additional_chat_templates/tool.jinja", "t");
  const SaveReport report = load_and_save(folder / "a", folder / "b", DType::kF64);
  EXPECT_TRUE(report.changes.empty());
  EXPECT_EQ(report.weight_files.size(), 3U);
  EXPECT_EQ(report.copied_files,
            (std::vector<std::string>{"additional_chat_templates/tool.jinja", "chat_template.jinja",
                                      "generation_config.json", "tokenizer.json",
                                      "tokenizer_config.json"}));
  EXPECT_FALSE(fs::exists(folder / "b/pytorch_model.bin"));
  for (const auto& entry : fs::recursive_directory_iterator(folder / "b")) {
    if (!entry.is_regular_file()) continue;
    const auto relative = fs::relative(entry.path(), folder / "b").string();
    EXPECT_EQ(io::read_file(folder / "a/" + relative), io::read_file(entry.path().string()));
  }
}

TEST(HfCheckpoint, DeviceMemoryIsLoadedAndSavedAsHostMemoryIs) {
  if (!cuda_memory::available()) GTEST_SKIP() << "no CUDA device";
  const HfCheckpoint c = HfCheckpoint::open(kGolden + "indexshare");
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const TempFolder out;
    MemoryParameters p(c.config(), dtype, Device::kCuda);
    c.load(p.all());
    c.save(out / "saved", p.all());
    EXPECT_EQ(io::read_file(kGolden + "indexshare/model.safetensors"),
              io::read_file(out / "saved/model.safetensors"));
  }
}

TEST(HfCheckpoint, ExpertsAreStackedGateFirst) {
  const HfCheckpoint c = HfCheckpoint::open(kGolden + "packed");
  MemoryParameters p(c.config(), DType::kF32);
  c.load(p.all());
  const CheckpointBuilder raw = CheckpointBuilder::from(kGolden + "packed");
  const Tensor gate_up = p.at("model.layers.1.mlp.experts.gate_up_proj").value;
  const Tensor down = p.at("model.layers.1.mlp.experts.down_proj").value;
  const auto same = [&](const Tensor& t, const std::string& name) {
    const RawTensor& r = raw.tensors.at("model.layers.1.mlp.experts." + name + ".weight");
    return t.bytes() == r.bytes.size() && std::memcmp(t.data, r.bytes.data(), t.bytes()) == 0;
  };
  EXPECT_TRUE(same(gate_up.select(0, 5).rows(0, 32), "5.gate_proj"));
  EXPECT_TRUE(same(gate_up.select(0, 5).rows(32, 64), "5.up_proj"));
  EXPECT_TRUE(same(down.select(0, 7), "7.down_proj"));
}

TEST(HfCheckpoint, StackedFilesAreReadAndWrittenStacked) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(kGolden + "packed");
  const CheckpointBuilder original = b;
  for (int layer = 1; layer < 5; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".mlp.experts.";
    RawTensor gate_up{.dtype = DType::kF32, .shape = {8, 64, 64}, .bytes = {}};
    RawTensor down{.dtype = DType::kF32, .shape = {8, 64, 32}, .bytes = {}};
    for (int e = 0; e < 8; ++e) {
      const auto move = [&](RawTensor& to, const std::string& name) {
        const std::string full = prefix + std::to_string(e) + "." + name + ".weight";
        const auto& bytes = b.tensors.at(full).bytes;
        to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
        b.tensors.erase(full);
      };
      move(gate_up, "gate_proj");
      move(gate_up, "up_proj");
      move(down, "down_proj");
    }
    b.tensors[prefix + "gate_up_proj"] = gate_up;
    b.tensors[prefix + "down_proj"] = down;
  }
  b.write(folder / "a");
  load_and_save(folder / "a", folder / "b", DType::kF32);
  EXPECT_EQ(io::read_file(folder / "a/model.safetensors"),
            io::read_file(folder / "b/model.safetensors"));
  const HfCheckpoint one = HfCheckpoint::open(kGolden + "packed");
  const HfCheckpoint two = HfCheckpoint::open(folder / "a");
  MemoryParameters p(one.config(), DType::kF32);
  MemoryParameters q(one.config(), DType::kF32);
  one.load(p.all());
  two.load(q.all());
  for (nn::Parameter* x : p.all()) {
    EXPECT_EQ(std::memcmp(x->value.data, q.at(x->name).value.data, x->value.bytes()), 0) << x->name;
  }
}

TEST(HfCheckpoint, UnchangedTensorsKeepTheSourcesBytesChangedOnesItsDtype) {
  const TempFolder folder;
  const std::string changed = "model.layers.2.self_attn.o_proj.weight";
  load_and_save(kGolden + "packed", folder / "b", DType::kBF16, {}, [&](MemoryParameters& p) {
    p.at(changed).value.as<BFloat16>()[3] = BFloat16(7.0F);
  });
  const CheckpointBuilder before = CheckpointBuilder::from(kGolden + "packed");
  const CheckpointBuilder after = CheckpointBuilder::from(folder / "b");
  for (const auto& [name, t] : before.tensors) {
    EXPECT_EQ(t == after.tensors.at(name), name != changed) << name;
  }
  const RawTensor& t = after.tensors.at(changed);
  EXPECT_EQ(t.dtype, DType::kF32);
  RawTensor expected = converted(converted(before.tensors.at(changed), DType::kBF16), DType::kF32);
  reinterpret_cast<float*>(expected.bytes.data())[3] = 7.0F;
  EXPECT_EQ(t, expected);
}

TEST(HfCheckpoint, HalfPrecisionSourcesGoThroughFloat) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(kGolden + "packed");
  for (auto& [name, t] : b.tensors) {
    if (!name.ends_with("e_score_correction_bias")) t = converted(t, DType::kF16);
  }
  b.config.set("dtype", "float16");
  b.write(folder / "a", 2);
  EXPECT_EQ(HfCheckpoint::open(folder / "a").own_dtype(), DType::kF32);
  load_and_save(folder / "a", folder / "b", DType::kF32);
  EXPECT_EQ(CheckpointBuilder::from(folder / "b").tensors, b.tensors);
  const std::string m = message_of([&] {
    load_and_save(folder / "a", folder / "c", DType::kF32, {}, [](MemoryParameters& p) {
      p.at("model.norm.weight").value.as<float>()[0] = 1e6F;
    });
  });
  expect_says(m, {"model.norm.weight", "beyond the range of F16"});
}

TEST(HfCheckpoint, AnotherDtypeOnRequestIsWrittenToTheConfigToo) {
  const TempFolder folder;
  const CheckpointBuilder b = with_mtp(CheckpointBuilder::from(kGolden + "packed"), DType::kF32);
  b.write(folder / "a", 2);
  const SaveReport report =
      load_and_save(folder / "a", folder / "b", DType::kF32, {.dtype = DType::kBF16});
  EXPECT_EQ(report.changes.size(), 3U);
  const CheckpointBuilder after = CheckpointBuilder::from(folder / "b");
  EXPECT_EQ(after.config.find("dtype")->as_string(), "bfloat16");
  EXPECT_EQ(after.config.size(), b.config.size());
  for (const auto& [name, t] : b.tensors) {
    const bool f32 =
        name.ends_with("e_score_correction_bias") || name.starts_with("model.layers.5.");
    EXPECT_EQ(after.tensors.at(name), f32 ? t : converted(t, DType::kBF16)) << name;
  }
  EXPECT_EQ(HfCheckpoint::open(folder / "b").own_dtype(), DType::kBF16);
}

TEST(HfCheckpoint, Fp8SourcesAreDequantisedTheMtpLayerToo) {
  const TempFolder folder;
  CheckpointBuilder b = with_mtp(CheckpointBuilder::from(kGolden + "packed"), DType::kF32);
  const std::map<std::string, RawTensor> expected = quantize_fp8(b);
  b.write(folder / "a", 2);
  const HfCheckpoint c = HfCheckpoint::open(folder / "a");
  EXPECT_TRUE(c.quantized());
  EXPECT_TRUE(c.has_mtp());
  EXPECT_EQ(c.own_dtype(), DType::kBF16);
  load_and_save(folder / "a", folder / "b", DType::kBF16);
  const CheckpointBuilder after = CheckpointBuilder::from(folder / "b");
  EXPECT_EQ(after.tensors, expected);
  EXPECT_EQ(after.config.find("quantization_config"), nullptr);
  EXPECT_EQ(after.config.find("dtype")->as_string(), "bfloat16");
  EXPECT_FALSE(HfCheckpoint::open(folder / "b").quantized());

  b.tensors.erase("model.layers.0.self_attn.q_a_proj.weight_scale_inv");
  b.tensors["model.layers.0.self_attn.q_b_proj.weight_scale_inv"].shape = {1, 1};
  b.tensors["model.layers.0.self_attn.q_b_proj.weight_scale_inv"].bytes.resize(4);
  b.write(folder / "c");
  expect_says(message_of([&] { (void)HfCheckpoint::open(folder / "c"); }),
              {"2 problems", "model.layers.0.self_attn.q_a_proj.weight_scale_inv: is missing",
               "model.layers.0.self_attn.q_b_proj.weight_scale_inv: expected [5, 2] F32"});
}

TEST(HfCheckpoint, TiedHeads) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(kGolden + "packed");
  b.config.set("tie_word_embeddings", true);
  b.write(folder / "differs");
  expect_says(message_of([&] { (void)HfCheckpoint::open(folder / "differs"); }),
              {"lm_head.weight: differs from model.embed_tokens.weight"});
  b.tensors["lm_head.weight"] = b.tensors["model.embed_tokens.weight"];
  b.write(folder / "both");
  load_and_save(folder / "both", folder / "saved", DType::kF32, {}, [](MemoryParameters& p) {
    p.at("model.embed_tokens.weight").value.as<float>()[0] = 3.0F;
  });
  const CheckpointBuilder after = CheckpointBuilder::from(folder / "saved");
  EXPECT_EQ(after.tensors.at("lm_head.weight"), after.tensors.at("model.embed_tokens.weight"));
  EXPECT_FALSE(after.tensors.at("lm_head.weight") == b.tensors.at("lm_head.weight"));
  b.tensors.erase("lm_head.weight");
  b.write(folder / "one");
  load_and_save(folder / "one", folder / "saved1", DType::kF32);
  EXPECT_EQ(CheckpointBuilder::from(folder / "saved1").tensors, b.tensors);
}

TEST(HfCheckpoint, WhatDoesNotFitTheConfigIsNamed) {
  const TempFolder folder;
  CheckpointBuilder b = CheckpointBuilder::from(kGolden + "indexshare");
  b.tensors.erase("model.norm.weight");
  b.tensors["model.layers.1.input_layernorm.weight"] = random_tensor({65}, DType::kF32, 1);
  b.tensors["model.layers.3.self_attn.indexer.wk.weight"] = random_tensor({16, 64}, DType::kF32, 1);
  b.tensors["model.layers.8.input_layernorm.weight"] = random_tensor({64}, DType::kF32, 1);
  b.tensors["model.layers.0.input_layernorm.weight"] = {
      .dtype = DType::kI32, .shape = {64}, .bytes = std::vector<std::byte>(256)};
  b.write(folder / "a");
  expect_says(
      message_of([&] { (void)HfCheckpoint::open(folder / "a"); }),
      {"5 problems", "model.norm.weight: is missing, expected [64]",
       "model.layers.1.input_layernorm.weight: expected shape [64], found [65] F32",
       "model.layers.3.self_attn.indexer.wk.weight: is not expected (layer 3 shares the selection",
       "model.layers.8.input_layernorm.weight: is not expected (the config has 8 layers",
       "model.layers.0.input_layernorm.weight: has dtype I32"});
}

TEST(HfCheckpoint, ShardsThatDoNotFitTheIndexAreNamed) {
  const TempFolder folder;
  const CheckpointBuilder b = CheckpointBuilder::from(kGolden + "packed");
  const auto message = [&] { return message_of([&] { (void)HfCheckpoint::open(folder / "a"); }); };
  const auto reset = [&] {
    fs::remove_all(folder / "a");
    b.write(folder / "a", 3);
  };
  reset();
  EXPECT_EQ(message(), "no error");
  fs::remove(folder / "a/model-00002-of-00003.safetensors");
  expect_says(message(), {"1 problem", "model-00002-of-00003.safetensors: the file is missing"});

  reset();
  fs::resize_file(folder / "a/model-00003-of-00003.safetensors", 50000);
  expect_says(message(), {"model-00003-of-00003.safetensors: tensor ", "truncated"});

  reset();
  fs::copy_file(folder / "a/model-00003-of-00003.safetensors", folder / "a/stray.safetensors");
  expect_says(message(), {"stray.safetensors: is not listed in the index but holds"});

  reset();
  fs::rename(folder / "a/model-00003-of-00003.safetensors", folder / "a/x");
  fs::rename(folder / "a/model-00002-of-00003.safetensors",
             folder / "a/model-00003-of-00003.safetensors");
  fs::rename(folder / "a/x", folder / "a/model-00002-of-00003.safetensors");
  expect_says(message(),
              {"embed_tokens.weight: is listed in the index for ", " but lies in ", "more"});

  reset();
  io::Value index = io::read_json_file(folder / "a/model.safetensors.index.json");
  index.find("weight_map")->erase("lm_head.weight");
  index.find("weight_map")->set("extra.weight", "model-00001-of-00003.safetensors");
  io::write_file(folder / "a/model.safetensors.index.json", io::to_json(index));
  expect_says(message(), {"2 problems", "lm_head.weight: lies in", "but is not listed in the index",
                          "extra.weight: is listed in the index for"});

  index.find("weight_map")->set("extra.weight", "../x.safetensors");
  io::write_file(folder / "a/model.safetensors.index.json", io::to_json(index));
  expect_says(message(), {"\"../x.safetensors\" is not a file of this folder"});

  fs::remove_all(folder / "a");
  expect_says(message(), {"is not a folder"});
  fs::create_directory(folder / "a");
  expect_says(message(), {"holds no config.json"});
  fs::copy_file(kGolden + "packed/config.json", folder / "a/config.json");
  expect_says(message(), {"holds no weights"});
}

TEST(HfCheckpoint, AModelThatDoesNotCoverTheCheckpointIsRefused) {
  const TempFolder folder;
  const HfCheckpoint c = HfCheckpoint::open(kGolden + "packed");
  MemoryParameters p(c.config(), DType::kF32);
  std::vector<nn::Parameter*> some = p.all();
  some.pop_back();
  const std::string last = p.all().back()->name;
  expect_says(message_of([&] { c.load(some); }), {last.c_str(), "no parameter takes it"});
  expect_says(message_of([&] { c.save(folder / "b", some); }),
              {last.c_str(), "no parameter holds it"});
  EXPECT_TRUE(fs::is_empty(folder / "b"));
  EXPECT_NO_THROW(c.load_one(*some.front()));
  expect_says(message_of([&] { c.save(kGolden + "packed", p.all()); }),
              {"is the source checkpoint itself"});
  OwnedTensor wrong({3, 3}, DType::kF32, Device::kCpu);
  nn::Parameter q{.name = "model.norm.weight", .value = wrong.view};
  expect_says(message_of([&] { c.load_one(q); }), {"model.norm.weight", "[3, 3]", "[64]"});
}

}  // namespace
}  // namespace glmtune::models
