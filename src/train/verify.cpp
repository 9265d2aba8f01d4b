#include "train/verify.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/cat.h"
#include "base/exit_code.h"
#include "models/glm_moe_dsa.h"
#include "models/hf_checkpoint.h"
#include "train/reference.h"
#include "train/verify_report.h"

namespace glmtune::train {
namespace {

std::vector<double> to_doubles(const Tensor& t, Engine& engine) {
  const std::int64_t n = t.count();
  const OwnedTensor host({n}, t.dtype, Device::kCpu);
  copy_bytes(host, t.reshape({n}), engine.context().stream);
  engine.synchronize();
  std::vector<double> values(static_cast<std::size_t>(n));
  dispatch_real(t.dtype, [&]<class T>(T) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>(static_cast<Wide<T>>(host.view.as<T>()[i]));
  });
  return values;
}

// Top-1 agreement and mean KL(want ‖ got) over rows of logits.
void compare_rows(VerifyReport::Logits& result, const std::vector<double>& got,
                  const std::vector<double>& want, std::size_t vocab) {
  const std::size_t rows = want.size() / vocab;
  std::size_t same = 0;
  double kl = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const double* g = got.data() + r * vocab;
    const double* w = want.data() + r * vocab;
    const auto best = [&](const double* z) { return std::max_element(z, z + vocab) - z; };
    const auto log_sum = [&](const double* z) {
      const double top = z[best(z)];
      double sum = 0;
      for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(z[v] - top);
      return top + std::log(sum);
    };
    same += best(g) == best(w) ? 1 : 0;
    const double lg = log_sum(g), lw = log_sum(w);
    for (std::size_t v = 0; v < vocab; ++v) kl += std::exp(w[v] - lw) * ((w[v] - lw) - (g[v] - lg));
  }
  result.top1 = static_cast<double>(same) / static_cast<double>(rows);
  result.kl = kl / static_cast<double>(rows);
}

class Verifier {
 public:
  Verifier(Engine& engine, const Reference& reference, double tolerance)
      : engine_(engine), reference_(reference) {
    report_.tolerance = tolerance;
  }

  VerifyReport run() {
    const bool trains = reference_.label_tokens() > 0 && !reference_.names("grad.").empty();
    models::Probe probe;
    probe.hidden = [&](std::int64_t n, Tensor x) { hidden(n, x); };
    if (reference_.has("logits")) probe.logits = [&](Tensor z) { logits(z); };
    const auto labels = static_cast<double>(reference_.label_tokens());
    engine_.run(reference_.row(), {.backward = trains, .grad_scale = trains ? 1.0 / labels : 1.0},
                &probe);
    loss(engine_.take_loss() / labels);
    gradients(trains);
    for (const std::string& n : reference_.names("hidden."))
      if (std::none_of(report_.hidden.begin(), report_.hidden.end(),
                       [&](const TensorError& e) { return e.name == "hidden." + n; }))
        fail(cat("the reference has hidden.", n, ", which the model does not have"));
    if (!report_.logits && !report_.loss && report_.hidden.empty() && report_.grads.empty())
      fail(
          "the reference holds nothing to compare with: expected logits, loss, hidden.N or "
          "grad.NAME beside input_ids");
    return report_;
  }

 private:
  void hidden(std::int64_t n, Tensor x) {
    const std::string name = cat("hidden.", n);
    if (reference_.has(name))
      report_.hidden.push_back(
          compare(name, to_doubles(x, engine_), reference_.values(name, x.count())));
  }

  void logits(Tensor z) {
    const std::vector<double> got = to_doubles(z, engine_);
    const std::vector<double> want = reference_.values("logits", z.count());
    VerifyReport::Logits result{.error = compare("logits", got, want)};
    compare_rows(result, got, want, static_cast<std::size_t>(z.size(1)));
    report_.logits = result;
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

VerifyReport verify(const VerifyOptions& options) {
  const Reference reference(options.reference);
  const models::HfCheckpoint checkpoint = models::HfCheckpoint::open(options.model);
  const Device device = options.device == "cuda" ? Device::kCuda : Device::kCpu;
  if (options.device != "cuda" && options.device != "cpu")
    fail(cat("--device ", options.device, ": expected cpu or cuda"));
  Engine engine(models::make_model(checkpoint.config(), options.dtype, options.latent_norm_eps),
                {.device = device, .gradients = true});
  engine.load(checkpoint);
  return Verifier(engine, reference, options.tolerance).run();
}

int run_verify(const VerifyOptions& options) {
  const VerifyReport report = verify(options);
  std::fputs((options.json ? report.json() + "\n" : report.text()).c_str(), stdout);
  return report.ok() ? exit_status(ExitCode::kOk) : exit_status(ExitCode::kUserError);
}

}  // namespace glmtune::train
