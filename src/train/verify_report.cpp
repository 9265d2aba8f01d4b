#include "train/verify_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "io/json.h"

namespace glmtune::train {
namespace {

bool within(double error, double limit) {
  return error <= limit;
}  // false for NaN

const TensorError* worst(const std::vector<TensorError>& list) {
  const auto it = std::max_element(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return std::isnan(b.rel_l2) || a.rel_l2 < b.rel_l2;
  });
  return it == list.end() ? nullptr : &*it;
}

std::string line(const TensorError& e, double limit) {
  return fmt::format("  {:<66} {:>10.2e} {:>10.2e}  {}\n", e.name, e.rel_l2, e.max_abs,
                     within(e.rel_l2, limit) ? "ok" : fmt::format("OVER {:.1e}", limit));
}

using io::Value;
using Object = Value::Object;

// JSON has neither NaN nor infinity.
Value finite(double x) {
  return std::isfinite(x) ? Value(x) : Value();
}

// {"mean": over layers, "layers": {name: {"mean", "same_rows", "rows"}}}; null where nothing is
// chosen.
Value overlaps(const std::vector<VerifyReport::Overlap>& list) {
  Object layers;
  double sum = 0;
  std::int64_t counted = 0;
  for (const VerifyReport::Overlap& o : list) {
    layers.emplace_back(o.name,
                        Value(Object{{"rows", o.rows},
                                     {"mean", o.rows == 0 ? Value() : Value(o.mean)},
                                     {"same_rows", o.rows == 0 ? Value() : Value(o.same_rows)}}));
    if (o.rows == 0) continue;
    sum += o.mean;
    ++counted;
  }
  return Value(Object{{"mean", counted == 0 ? Value() : Value(sum / static_cast<double>(counted))},
                      {"layers", Value(std::move(layers))}});
}

}  // namespace

double relative(double error, double norm, double got_norm) {
  // Not norm > 0, which would hide a NaN.
  return norm == 0 ? std::sqrt(got_norm) : std::sqrt(error / norm);
}

TensorError compare(std::string name, const std::vector<double>& got,
                    const std::vector<double>& want) {
  double error = 0, norm = 0, got_norm = 0;
  TensorError e{.name = std::move(name)};
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double d = got[i] - want[i];
    error += d * d;
    norm += want[i] * want[i];
    got_norm += got[i] * got[i];
    if (!(std::abs(d) <= e.max_abs)) e.max_abs = std::abs(d);  // keeps a NaN
  }
  e.rel_l2 = relative(error, norm, got_norm);
  return e;
}

bool VerifyReport::ok() const {
  const auto all_within = [](const std::vector<TensorError>& list, double limit) {
    return std::all_of(list.begin(), list.end(),
                       [&](const TensorError& e) { return within(e.rel_l2, limit); });
  };
  return (!logits || within(logits->error.rel_l2, tolerance)) &&
         (!loss || within(loss->rel, tolerance / 5)) && all_within(hidden, tolerance) &&
         all_within(grads, 3 * tolerance);
}

std::string VerifyReport::text() const {
  std::string s = fmt::format("  {:<66} {:>10} {:>10}\n", "tensor", "rel. L2", "max. abs");
  for (const TensorError& e : hidden) s += line(e, tolerance);
  if (logits) s += line(logits->error, tolerance);
  for (const TensorError& e : grads) s += line(e, 3 * tolerance);
  if (logits)
    s += fmt::format("logits     top-1 agreement {:.2f} %, mean KL {:.2e}\n", 100 * logits->top1,
                     logits->kl);
  for (const auto* list : {&selections, &experts})
    for (const Overlap& o : *list)
      s += o.rows == 0
               ? fmt::format("{:<12} no document is longer than index_topk: nothing is chosen\n",
                             o.name)
               : fmt::format("{:<12} overlap {:.4f} %, {:.2f} % of {} rows the same\n", o.name,
                             100 * o.mean, 100 * o.same_rows, o.rows);
  if (loss)
    s += fmt::format("loss       {:.8f}, reference {:.8f}, relative {:.2e} {}\n", loss->got,
                     loss->want, loss->rel,
                     within(loss->rel, tolerance / 5) ? "ok" : "OVER its tolerance");
  if (const TensorError* e = worst(grads))
    s += fmt::format("gradients  {} compared, worst {:.2e} ({})\n", grads.size(), e->rel_l2,
                     e->name);
  // Rounding moves logits by less than their own size.
  if (logits && !(logits->error.rel_l2 < 0.8))
    s += "logits off by their own size: are these the weights that the reference was made with?\n";
  s += ok() ? "verify: ok\n" : "verify: over tolerance\n";
  return s;
}

std::string VerifyReport::json() const {
  Object o{{"ok", Value(ok())}, {"loss", {}},       {"logits", {}}, {"hidden", {}},
           {"grads", {}},       {"selections", {}}, {"experts", {}}};
  Value v(std::move(o));
  if (loss)
    v.set("loss", Value(Object{{"got", finite(loss->got)},
                               {"want", finite(loss->want)},
                               {"rel", finite(loss->rel)}}));
  if (logits)
    v.set("logits", Value(Object{{"rel_l2", finite(logits->error.rel_l2)},
                                 {"max_abs", finite(logits->error.max_abs)},
                                 {"top1", finite(logits->top1)},
                                 {"kl", finite(logits->kl)}}));
  if (const TensorError* e = worst(hidden))
    v.set("hidden", Value(Object{{"max_rel_l2", finite(e->rel_l2)}}));
  if (const TensorError* e = worst(grads))
    v.set("grads", Value(Object{{"max_rel_l2", finite(e->rel_l2)}, {"worst", e->name}}));
  if (!selections.empty()) v.set("selections", overlaps(selections));
  if (!experts.empty()) v.set("experts", overlaps(experts));
  return io::to_json(v);
}

}  // namespace glmtune::train
