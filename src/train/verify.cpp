#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "models/glm_moe_dsa.h"
#include "models/hf_checkpoint.h"
#include "train/reference.h"
#include "train/verify_compare.h"
#include "train/verify_report.h"

namespace glmtune::train {
namespace {

// A copy of a contiguous tensor in host memory.
OwnedTensor to_host(const Tensor& t, Engine& engine) {
  const Tensor flat = t.reshape({t.count()});
  OwnedTensor host({t.count()}, t.dtype, Device::kCpu);
  copy_bytes(host, flat, engine.context().stream);
  engine.synchronize();
  void* data = host.view.data;
  host.view = t;
  host.view.data = data;
  host.view.device = Device::kCpu;
  return host;
}

std::vector<double> to_doubles(const Tensor& t, Engine& engine) {
  const OwnedTensor host = to_host(t.reshape({t.count()}), engine);
  std::vector<double> values(static_cast<std::size_t>(t.count()));
  dispatch_real(t.dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<Wide<T>>(host.view.as<T>()[i]));
  });
  return values;
}

// What of a reference needs a backward.
bool trains(const Reference& reference) {
  return reference.label_tokens() > 0 && !reference.names("grad.").empty();
}

class Verifier {
 public:
  Verifier(Engine& engine, const Reference& reference, double tolerance)
      : engine_(engine), reference_(reference) {
    report_.tolerance = tolerance;
  }

  VerifyReport run() {
    const bool train = trains(reference_);
    models::Probe probe;
    probe.hidden = [&](std::int64_t n, Tensor x) { hidden(n, x); };
    if (!reference_.names("selection.").empty())
      probe.selection = [&](std::int64_t n, const nn::PackedRow& row, const nn::Selection& s) {
        selection(n, row, s);
      };
    if (!reference_.names("experts.").empty())
      probe.experts = [&](std::int64_t n, Tensor ids) { experts(n, ids); };
    if (reference_.has("logits")) probe.logits = [&](Tensor z) { logits(z); };
    const auto labels = static_cast<double>(reference_.label_tokens());
    engine_.run(reference_.row(), {.backward = train, .grad_scale = train ? 1.0 / labels : 1.0},
                &probe);
    engine_.parameters().complete_gradients(engine_.context().stream);
    loss(engine_.take_loss() / labels);
    gradients(train);
    all_compared("hidden.", report_.hidden);
    all_compared("selection.", report_.selections);
    all_compared("experts.", report_.experts);
    if (!report_.logits && !report_.loss && report_.hidden.empty() && report_.grads.empty() &&
        report_.selections.empty() && report_.experts.empty())
      fail(
          "the reference holds nothing to compare with: expected logits, loss, hidden.N, "
          "selection.N, experts.N or grad.NAME beside input_ids");
    return report_;
  }

 private:
  void hidden(std::int64_t n, Tensor x) {
    const std::string name = cat("hidden.", n);
    if (reference_.has(name))
      report_.hidden.push_back(
          compare(name, to_doubles(x, engine_), reference_.values(name, x.count())));
  }

  // The reference names every layer by a number that the model has, too.
  template <class List>
  void all_compared(const std::string& prefix, const List& compared) const {
    for (const std::string& n : reference_.names(prefix))
      if (std::none_of(compared.begin(), compared.end(),
                       [&](const auto& e) { return e.name == prefix + n; }))
        fail(cat("the reference has ", prefix, n, ", which the model does not have"));
  }

  void logits(Tensor z) {
    const OwnedTensor host = to_host(z, engine_);
    report_.logits = compare_logits(host, reference_);
  }

  // Rows that see at most as many keys as are selected take them all: they say nothing.
  void selection(std::int64_t n, const nn::PackedRow& row, const nn::Selection& s) {
    const std::string name = cat("selection.", n);
    if (!reference_.has(name)) return;
    const std::int64_t index_topk = engine_.model().attention().index_topk;
    std::optional<OwnedTensor> mask, indices;
    if (s.mask.defined()) mask.emplace(to_host(s.mask, engine_));
    if (s.indices.defined()) indices.emplace(to_host(s.indices, engine_));
    std::vector<ChosenRow> rows;
    std::int64_t gather_row = 0;
    for (std::size_t d = 0; d < row.selecting.size(); ++d) {
      const nn::RowRange doc = row.selecting[d];
      const bool gathers = d >= static_cast<std::size_t>(row.masked.count);
      for (std::int64_t t = doc.begin; t < doc.end; ++t) {
        const std::int64_t g = gathers ? gather_row++ : -1;
        if (t - doc.begin < index_topk) continue;
        if (gathers) {
          const auto* list = indices->view.row<std::int32_t>(g);
          const std::int64_t width = indices->view.size(1);
          const auto* end = std::find_if(list, list + width, [](auto v) { return v < 0; });
          rows.push_back({t, [=](std::int32_t v) { return std::binary_search(list, end, v); }});
        } else {
          const auto* bits = mask->view.row<std::uint32_t>(t);
          const std::int64_t words = mask->view.size(1);
          rows.push_back(
              {t, [=](std::int32_t v) { return v / 32 < words && (bits[v / 32] >> v % 32 & 1U); }});
        }
      }
    }
    report_.selections.push_back(
        compare_choices(name, rows, reference_.choices(name, reference_.tokens())));
  }

  void experts(std::int64_t n, Tensor ids) {
    const std::string name = cat("experts.", n);
    if (!reference_.has(name)) return;
    const OwnedTensor host = to_host(ids, engine_);
    const std::int64_t width = ids.size(1);
    std::vector<ChosenRow> rows;
    for (std::int64_t t = 0; t < ids.size(0); ++t) {
      const auto* list = host.view.row<std::int32_t>(t);
      rows.push_back(
          {t, [=](std::int32_t v) { return std::find(list, list + width, v) != list + width; }});
    }
    report_.experts.push_back(
        compare_choices(name, rows, reference_.choices(name, expert_count())));
  }

  std::int64_t expert_count() {
    std::int64_t count = 0;
    engine_.model().visit_routers(
        [&](std::int64_t, nn::Router& r) { count = r.e_score_correction_bias.value.count(); });
    return count;
  }

  void loss(double got) {
    const std::optional<double> want = reference_.loss();
    if (!want) return;
    if (reference_.label_tokens() == 0)
      fail("the reference has a loss but no labels or shifted_labels to compute it from");
    report_.loss = {.got = got, .want = *want, .rel = std::abs(got - *want) / std::abs(*want)};
  }

  void gradients(bool trained) {
    std::vector<std::string> wanted = reference_.names("grad.");
    if (!wanted.empty() && !trained)
      fail("the reference has gradients but no labels or shifted_labels to compute them from");
    engine_.model().visit_parameters([&](nn::Parameter& p) {
      const auto it = std::find(wanted.begin(), wanted.end(), p.name);
      if (it == wanted.end()) return;
      wanted.erase(it);
      if (!p.trainable)
        fail(cat("the reference has grad.", p.name, ", which this model does not train"));
      report_.grads.push_back(compare(p.name, to_doubles(p.grad, engine_),
                                      reference_.values("grad." + p.name, p.grad.count())));
    });
    if (!wanted.empty())
      fail(cat("the reference has grad.", wanted.front(), " (", wanted.size(),
               " such): the model has no parameter of that name"));
  }

  Engine& engine_;
  const Reference& reference_;
  VerifyReport report_;
};

}  // namespace

std::vector<VerifyReport> verify(const VerifyOptions& options) {
  if (options.device != "cuda" && options.device != "cpu")
    fail(cat("--device ", options.device, ": expected cpu or cuda"));
  std::vector<Reference> references;
  for (const std::string& path : options.references) references.emplace_back(path);
  const models::HfCheckpoint checkpoint = models::HfCheckpoint::open(options.model);
  Engine engine(models::make_model(checkpoint.config(), options.dtype, options.latent_norm_eps),
                {.device = options.device == "cuda" ? Device::kCuda : Device::kCpu,
                 .gradients = std::any_of(references.begin(), references.end(), trains)});
  engine.load(checkpoint);
  std::vector<VerifyReport> reports;
  for (const Reference& reference : references) {
    engine.parameters().start_gradients();
    reports.push_back(Verifier(engine, reference, options.tolerance).run());
  }
  return reports;
}

int run_verify(const VerifyOptions& options) {
  bool ok = true;
  const std::vector<VerifyReport> reports = verify(options);
  for (std::size_t i = 0; i < reports.size(); ++i) {
    const VerifyReport& report = reports[i];
    std::string text = options.json ? report.json() + "\n" : report.text();
    if (!options.json && reports.size() > 1) text = cat(options.references[i], "\n", text);
    std::cout << text << std::flush;
    ok = ok && report.ok();
  }
  // The likeliest cause, and one that looks like a wrong model.
  if (!ok && options.latent_norm_eps == VerifyOptions().latent_norm_eps)
    std::fputs(
        "hint: transformers' q_a_layernorm and kv_a_layernorm have eps 1e-6, glmtune's default is "
        "1e-5; for a reference made with transformers add --latent-norm-eps 1e-6\n",
        stderr);
  return ok ? exit_status(ExitCode::kOk) : exit_status(ExitCode::kUserError);
}

}  // namespace glmtune::train
