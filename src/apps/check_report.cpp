#include "apps/check_report.h"

#include <algorithm>

#include "base/cat.h"
#include "base/format.h"
#include "io/files.h"
#include "train/run_description.h"

namespace glmtune::apps {
namespace {

std::string list_of(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : ", ") + word;
  return out;
}

io::Value array_of(const std::vector<std::string>& words) {
  return io::Value::Array(words.begin(), words.end());
}

const char* checkpointing_name(train::ActivationCheckpointing mode) {
  switch (mode) {
    case train::ActivationCheckpointing::kOff:
      return "off";
    case train::ActivationCheckpointing::kSelective:
      return "selective";
    case train::ActivationCheckpointing::kFull:
      return "full";
  }
  return "";
}

std::string memory_text(const CheckReport& r) {
  const train::MemoryEstimate& m = *r.memory.estimate;
  std::string out = cat("a rank: weights ", io::human_bytes(m.weights), ", gradients ",
                        io::human_bytes(m.gradients), ", optimizer ", io::human_bytes(m.optimizer));
  const std::string mode =
      cat("activation checkpointing ",
          checkpointing_name(r.file.recipe.distributed.activation_checkpointing));
  if (r.memory.row_tokens == 0)
    return cat(out, "; activations depend on the longest sample (", mode, ")");
  return cat(out, ", activations ", io::human_bytes(m.saved + m.scratch), " for a row of ",
             r.memory.row_tokens, " tokens (", mode, "); in all ", io::human_bytes(m.total()));
}

std::string adapters_text(const CheckReport& r) {
  const train::LoraSettings& lora = *r.file.recipe.peft;
  std::string out = cat("LoRA of rank ", lora.dim, ": ", grouped(r.memory.estimate->trained),
                        " parameters trained, the others frozen");
  for (const std::string& target : r.memory.estimate->unmatched_targets)
    out += cat("; peft.target_modules '", target, "' names no module of this model");
  return out;
}

std::string rows_text(const ReadRows& r) {
  const data::DataSummary& s = r.summary;
  std::string out = cat(r.key, ": ", r.all ? "all " : "the first ", grouped(s.rows), " rows read");
  if (s.samples == 0) return out;
  out += cat(", ", grouped(s.samples), " samples of ", grouped(s.tokens), " tokens, ",
             grouped(s.label_tokens), " trained on, longest ", grouped(s.longest));
  for (const data::Count& c : s.dropped) out += cat("; ", c.count, " left out: ", c.what);
  return out;
}

// Lines after the first one under the first.
std::string indented(std::string text) {
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1))
    text.insert(at + 1, "    ");
  return text;
}

std::string mesh_text(const train::RecipePlan& p) {
  std::string out = cat(p.world_size, p.world_size == 1 ? " rank" : " ranks", " (",
                        p.world_size_from, "): pp ", p.pp, ", dp ", p.dp, ", cp ", p.cp, ", tp ",
                        p.tp, "; experts over ", p.ep, " x ", p.ep_shard);
  if (p.experts_per_rank > 0) out += cat(", ", p.experts_per_rank, " of each layer on a rank");
  return out;
}

std::string schedule_text(const CheckReport& report) {
  const train::StepSchedulerSettings& s = report.file.recipe.step_scheduler;
  const train::RecipePlan& p = report.plan;
  std::string out =
      s.max_steps ? cat("at most ", *s.max_steps, " steps") : std::string("no limit of steps");
  out += s.num_epochs ? cat(", ", *s.num_epochs, " epochs") : std::string();
  out += cat("; global batch ", s.global_batch_size);
  if (p.conflicts.empty())
    out += cat(" = ", s.local_batch_size, " x dp ", p.dp, " x accumulation ", p.accumulation);
  if (p.tokens_per_step > 0) out += cat("; ", grouped(p.tokens_per_step), " tokens a step");
  if (report.steps) out += cat("; ", grouped(*report.steps), " steps in all");
  return out;
}

}  // namespace

std::string to_text(const CheckReport& r) {
  const train::Recipe& recipe = r.file.recipe;
  std::string out = r.recipe_path + "\n";
  const auto line = [&](const char* name, const std::string& text) {
    out += cat("  ", name, std::string(12 - std::string_view(name).size(), ' '), text, "\n");
  };
  const std::string& id = recipe.model.pretrained_model_name_or_path;
  if (r.model) {
    line("model", cat(id, ": ", grouped(r.model->parameters), " parameters, ",
                      grouped(r.model->active_per_token), " active per token",
                      r.model->mtp > 0 ? cat(", ", grouped(r.model->mtp), " of MTP carried along")
                                       : std::string(),
                      " (", r.model->from, ")"));
  } else {
    line("model", cat(id, ": not on this machine, sizes unknown"));
  }
  line("mesh", mesh_text(r.plan));
  if (!r.plan.stage_layers.empty()) {
    const auto [low, high] =
        std::minmax_element(r.plan.stage_layers.begin(), r.plan.stage_layers.end());
    line("pipeline", cat(r.plan.stage_layers.size(), " stages of ", *low, " to ", *high,
                         " layers, ", recipe.distributed.pipeline->schedule));
  }
  line("schedule", schedule_text(r));
  line("optimizer", train::optimizer_line(recipe, weight_type(r)));
  for (const DataFacts& data : r.data)
    line("data", cat(data.key, ": ", data.target, " ", data.source, data.found.empty() ? "" : ": ",
                     data.found));
  for (const ReadRows& rows : r.rows) {
    line("rows", rows_text(rows));
    for (const data::Count& c : rows.summary.notes)
      line("note", cat(rows.key, ": ", c.what, ": ", grouped(c.count)));
  }
  if (recipe.peft && r.memory.estimate) line("adapters", adapters_text(r));
  if (r.memory.estimate) line("memory", memory_text(r));
  for (const std::string& note : r.plan.notes) line("note", note);
  for (const std::string& conflict : r.plan.conflicts) line("conflict", conflict);
  out += "\nkeys\n";
  const std::string keys = train::resolved_lines(r.file.checked);
  for (std::size_t at = 0; at < keys.size();) {
    const std::size_t end = keys.find('\n', at);
    out += cat("  ", keys.substr(at, end - at), "\n");
    at = end + 1;
  }
  if (!r.file.checked.no_counterpart.empty())
    out += cat("\naccepted, without a counterpart here: ", list_of(r.file.checked.no_counterpart),
               "\n");
  out += "\nnot checked: " + list_of(r.unchecked) + "\n";
  out += r.reasons.empty() ? "runs here\n" : "not runnable here:\n";
  for (const std::string& reason : r.reasons) out += cat("  - ", indented(reason), "\n");
  return out;
}

io::Value to_value(const CheckReport& r) {
  io::Value out = train::resolved_keys(r.file.checked);
  const train::RecipePlan& p = r.plan;
  std::vector<std::string> defaults;
  for (const train::CheckedKey& key : r.file.checked.keys)
    if (!key.from_recipe && out.find(key.path) != nullptr) defaults.push_back(key.path);
  if (r.model) {
    out.set("check.model.config", r.model->from);
    out.set("check.model.parameters", r.model->parameters);
    out.set("check.model.routed_experts", r.model->routed_experts);
    out.set("check.model.active_per_token", r.model->active_per_token);
    out.set("check.model.mtp", r.model->mtp);
  }
  out.set("check.mesh.world_size", p.world_size);
  out.set("check.mesh.pp", p.pp);
  out.set("check.mesh.dp", p.dp);
  out.set("check.mesh.dp_replicate", p.dp_replicate);
  out.set("check.mesh.cp", p.cp);
  out.set("check.mesh.tp", p.tp);
  out.set("check.mesh.ep", p.ep);
  out.set("check.mesh.ep_shard", p.ep_shard);
  out.set("check.mesh.experts_per_rank", p.experts_per_rank);
  out.set("check.schedule.accumulation", p.accumulation);
  out.set("check.schedule.tokens_per_step", p.tokens_per_step);
  io::Value::Array stages(p.stage_layers.begin(), p.stage_layers.end());
  out.set("check.pipeline.stage_layers", std::move(stages));
  if (r.memory.estimate) {
    const train::MemoryEstimate& m = *r.memory.estimate;
    const auto bytes = [](std::uint64_t n) { return io::Value(static_cast<std::int64_t>(n)); };
    if (r.file.recipe.peft) {
      out.set("check.adapters.trained", m.trained);
      out.set("check.adapters.unmatched_targets", array_of(m.unmatched_targets));
    }
    out.set("check.memory.weights", bytes(m.weights));
    out.set("check.memory.gradients", bytes(m.gradients));
    out.set("check.memory.optimizer", bytes(m.optimizer));
    out.set("check.memory.activation_checkpointing",
            checkpointing_name(r.file.recipe.distributed.activation_checkpointing));
    out.set("check.memory.row_tokens", r.memory.row_tokens);
    out.set("check.memory.saved", bytes(r.memory.row_tokens > 0 ? m.saved : 0));
    out.set("check.memory.scratch", bytes(r.memory.row_tokens > 0 ? m.scratch : 0));
  }
  io::Value::Array data;
  for (const DataFacts& facts : r.data)
    data.emplace_back(io::Value::Object{{"key", facts.key},
                                        {"kind", facts.target},
                                        {"source", facts.source},
                                        {"found", facts.found}});
  out.set("check.data", std::move(data));
  io::Value::Array rows;
  for (const ReadRows& read : r.rows)
    rows.emplace_back(io::Value::Object{{"key", read.key},
                                        {"rows", read.summary.rows},
                                        {"all", read.all},
                                        {"samples", read.summary.samples},
                                        {"tokens", read.summary.tokens},
                                        {"label_tokens", read.summary.label_tokens},
                                        {"longest", read.summary.longest},
                                        {"dropped", read.summary.dropped_rows()}});
  out.set("check.rows", std::move(rows));
  if (r.steps) out.set("check.schedule.steps", *r.steps);
  out.set("check.runnable", r.reasons.empty());
  out.set("check.reasons", array_of(r.reasons));
  out.set("check.unchecked", array_of(r.unchecked));
  out.set("check.notes", array_of(p.notes));
  out.set("check.conflicts", array_of(p.conflicts));
  out.set("check.warnings", array_of(r.file.checked.warnings));
  out.set("check.no_counterpart", array_of(r.file.checked.no_counterpart));
  out.set("check.not_runnable", array_of(r.file.checked.not_runnable));
  out.set("check.defaults", array_of(defaults));
  return out;
}

}  // namespace glmtune::apps
