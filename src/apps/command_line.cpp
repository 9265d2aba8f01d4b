#include "apps/command_line.h"

#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <limits>
#include <new>

#include "apps/arguments.h"
#include "apps/commands.h"
#include "base/cat.h"
#include "base/error.h"
#include "base/exit_code.h"
#include "io/files.h"
#include "io/untrusted.h"
#include "train/schema.h"
#include "train/schema_scalar.h"

namespace glmtune::apps {
namespace {

constexpr const char* kVersion = "glmtune 0.1.0";

constexpr const char* kOverview =
    R"(glmtune fine-tunes the GLM-5 family: a recipe in, a Hugging Face checkpoint out.

  glmtune RECIPE.yaml [--section.key=value ...]   fine-tunes: the main job (--nproc-per-node N: ranks,
                                                  of which this version runs one)
  glmtune check RECIPE.yaml                       what a recipe means and needs, and whether it runs here
  glmtune preview RECIPE.yaml                     the chats as the model sees them, and what is trained on
  glmtune verify --model DIR --reference FILE     compares with a reference file
  glmtune inspect PATH                            what a checkpoint holds
  glmtune init CONFIG.json OUT                    a checkpoint of random weights
  glmtune docs-recipe                             the recipe language, docs/recipe.md, on standard output
  glmtune --version                               the version

glmtune COMMAND --help says more about each, glmtune RECIPE.yaml --help about the main job. Exit
status: 0 done; 1 an error in the recipe, the data or the arguments, and of verify and inspect what
does not fit; 3 the machine failed; 4 another rank failed; 5 loss, gradients or weights not
finite; 70 a bug in the program; 75 stopped by a signal (start it again to go on).
)";

constexpr const char* kOverridesNote =
    "Settings of the recipe: --section.key=value, --section.key value, --section.key (true). "
    "docs/recipe.md lists the keys.";

// More ranks than any machine has; the arithmetic of a plan stays far below overflow.
constexpr std::int64_t kMostRanks = 1 << 20;

// CLI11's own checks answer with the range of a double in all its digits.
CLI::Validator whole_number(std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  return {[most](std::string& text) {
            const auto n = train::int_from_text(text);
            if (n && *n >= 1 && *n <= most) return std::string();
            const bool bounded = most != std::numeric_limits<std::int64_t>::max();
            return cat("expected a whole number, 1 ", bounded ? cat("to ", most) : "or more",
                       ", found ", text);
          },
          "1 or more"};
}

// As a recipe's seed.
CLI::Validator seed_number() {
  return {[](std::string& text) {
            const auto n = train::int_from_text(text);
            if (n && *n >= 0) return std::string();
            return cat("expected a whole number, 0 to ", std::numeric_limits<std::int64_t>::max(),
                       ", found ", text);
          },
          "0 or more"};
}

CLI::Validator positive_number() {
  return {[](std::string& text) {
            const auto x = train::number_from_text(text);
            if (x && *x > 0) return std::string();
            return cat("expected a number above 0, found ", text);
          },
          "above 0"};
}

// A parsed help request: the text is printed and the program ends.
struct Help {
  std::string text;
};

void parse(CLI::App& app, const std::vector<std::string>& words) {
  std::vector<std::string> reversed(words.rbegin(), words.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    throw Help{app.help()};
  } catch (const CLI::ParseError& e) {
    fail(cat(e.what(), "; see ", app.get_name(), " --help"));
  }
}

bool asks_for_help(std::span<const std::string> words) {
  for (const std::string& word : words)
    if (word == "--help" || word == "-h") return true;
  return false;
}

// CLI11 prints the usage and reads the command's own options; recipe and settings are sorted out
// before, since any word may be a setting.
RecipeArguments parse_with_recipe(CLI::App& app, std::span<const std::string> words,
                                  std::span<const OptionName> options) {
  RecipeArguments out;
  app.add_option("RECIPE.yaml", out.recipe, "the recipe; -c or --config may stand before it");
  if (asks_for_help(words)) throw Help{app.help()};
  SortedArguments sorted = sort_arguments(words, options, app.get_name());
  parse(app, sorted.own);
  out.recipe = sorted.recipe;
  out.overrides = std::move(sorted.overrides);
  return out;
}

int train_command(std::span<const std::string> words) {
  CLI::App app(cat("Fine-tunes as a recipe says. ", kOverridesNote), "glmtune");
  app.footer("Example:\n  glmtune recipe.yaml --optimizer.lr=2e-5 --step_scheduler.max_steps 100");
  TrainCommand command;
  app.add_option("--nproc-per-node", command.nproc_per_node,
                 "ranks on this node; default: one, and this version runs no more");
  static constexpr std::array kOptions{OptionName{"nproc-per-node", true}};
  command.recipe = parse_with_recipe(app, words, kOptions);
  return run(command);
}

int check_command(std::span<const std::string> words) {
  CLI::App app(
      cat("Reads a recipe and the first 1000 rows of local data, resolves every key, and says what "
          "a run would do and need and whether it can run on this machine. Touches no weights. "
          "Exit "
          "status 0 also where the recipe is right but cannot run here, 1 for errors in recipe, "
          "data "
          "or paths. ",
          kOverridesNote),
      "glmtune check");
  app.footer("Example:\n  glmtune check recipe.yaml --world-size 256 --json");
  CheckCommand command;
  app.add_option("--world-size", command.world_size,
                 "ranks to plan for; more than one can be planned, not run")
      ->check(whole_number(kMostRanks));
  app.add_flag("--json", command.json,
               "one JSON object: every key of the recipe by its dotted name, and what was found "
               "under check.*; check.runnable and check.reasons are the verdict");
  static constexpr std::array kOptions{OptionName{"world-size", true}, OptionName{"json"}};
  command.recipe = parse_with_recipe(app, words, kOptions);
  return run(command);
}

int preview_command(std::span<const std::string> words) {
  CLI::App app(
      cat("Shows the rendered chats with what is trained on marked: on a terminal in colour, "
          "neighbouring tokens in two shades; elsewhere in brackets. --tokens shows the "
          "tokens themselves, one a line. A summary of the data comes last. Data and tokenizer "
          "that are named by a Hugging Face id are fetched where the cache lacks them. ",
          kOverridesNote),
      "glmtune preview");
  app.footer("Example:\n  glmtune preview recipe.yaml --rows 1 --tokens");
  PreviewCommand command;
  app.add_option(
         "--rows", command.rows,
         "packs to show (a pack may hold several rows), the first by number: where data are packed "
         "shuffled, of the shuffled samples; default 3")
      ->check(whole_number());
  app.add_flag("--tokens", command.tokens,
               "a line a token: position, id, + where it is trained on, its text");
  static constexpr std::array kOptions{OptionName{"rows", true}, OptionName{"tokens"}};
  command.recipe = parse_with_recipe(app, words, kOptions);
  return run(command);
}

int verify_command(std::span<const std::string> words) {
  CLI::App app(
      "Compares logits, loss, hidden states and gradients with reference files (docs/verify.md "
      "says what they hold); exit status 1 when anything is over the tolerance. The overlap of "
      "selected keys and experts is reported and not judged.",
      "glmtune verify");
  app.footer(
      "Example:\n  glmtune verify --model checkpoints/tiny --reference reference.safetensors "
      "--dtype float64 --latent-norm-eps 1e-6");
  VerifyCommand command;
  std::string dtype = "float32";
  train::VerifyOptions& options = command.options;
  app.add_option("--model", options.model,
                 "checkpoint folder, or a Hugging Face id, fetched where the cache lacks it")
      ->required();
  app.add_option("--reference", options.references,
                 "safetensors file with input_ids and results; several are compared one after the "
                 "other")
      ->required();
  app.add_option("--device", options.device, "cpu or cuda; default cpu")
      ->check(CLI::IsMember({"cpu", "cuda"}));
  app.add_option("--dtype", dtype,
                 "float64, float32 or bfloat16 (fp64, fp32, bf16); default float32");
  app.add_option("--latent-norm-eps", options.latent_norm_eps,
                 "eps of q_a_layernorm and kv_a_layernorm: 1e-5 (default), Hugging Face 1e-6")
      ->check(positive_number());
  app.add_option(
         "--tolerance", options.tolerance,
         "largest relative L2 of logits and hidden states; default 5e-6, for float32 and float64; "
         "--dtype bfloat16 needs a larger one. The loss may "
         "be off by a fifth of it, each gradient by three times as much")
      ->check(positive_number());
  app.add_flag("--json", options.json, "one JSON object per reference, a line each");
  // Understood, so that the answer is that several ranks do not run; no help offers them.
  const auto ranks = [&](const char* name, std::int64_t& n) {
    app.add_option(name, n)->check(whole_number(kMostRanks))->group("");
  };
  ranks("--nproc-per-node", command.nproc_per_node);
  ranks("--ep", command.ep);
  ranks("--cp", command.cp);
  parse(app, {words.begin(), words.end()});
  const auto type = train::dtype_from_text(dtype);
  if (!type || *type == DType::kF16)
    fail(cat("--dtype ", dtype, ": expected float64, float32 or bfloat16"));
  options.dtype = *type;
  return run(command);
}

int inspect_command(std::span<const std::string> words) {
  CLI::App app(
      "Says what a checkpoint folder or a safetensors file holds: families, shapes, types, "
      "bytes, and tensors that are missing, too many or misshaped; exit status 1 where there are "
      "such. Reads no weights.",
      "glmtune inspect");
  app.footer("Example:\n  glmtune inspect checkpoints/LATEST/model/consolidated");
  InspectCommand command;
  app.add_option(
         "PATH", command.path,
         "folder (a run's step folder too), safetensors file, or Hugging Face id in the cache")
      ->required();
  app.add_flag("--json", command.json, "one JSON object");
  parse(app, {words.begin(), words.end()});
  return run(command);
}

int init_command(std::span<const std::string> words) {
  CLI::App app(
      "Writes a Hugging Face checkpoint of random weights from a config.json: matrices normal "
      "with the config's initializer_range, norms one, biases zero. Tokenizer, template and other "
      "files beside the config are copied. The same seed gives the same bytes.",
      "glmtune init");
  app.footer("Example:\n  glmtune init examples/tiny/config.json /tmp/tiny --seed 1");
  InitCommand command;
  app.add_option("CONFIG.json", command.config, "config.json, or a folder with one")->required();
  app.add_option("OUT", command.out, "folder to write; must not exist, or be empty")->required();
  std::int64_t seed = 42;
  app.add_option("--seed", seed, "default 42")->check(seed_number());
  app.add_option(
      "--dtype", command.dtype,
      "float32, bfloat16, float16 or float64; default: the config's, float32 where it names none");
  parse(app, {words.begin(), words.end()});
  command.seed = static_cast<std::uint64_t>(seed);
  return run(command);
}

int docs_recipe_command(std::span<const std::string> words) {
  CLI::App app("Prints docs/recipe.md: every key of a recipe with type, default and meaning.",
               "glmtune docs-recipe");
  app.footer("Example:\n  glmtune docs-recipe > docs/recipe.md");
  parse(app, {words.begin(), words.end()});
  return run(DocsRecipeCommand{});
}

// A first word that is no command is a recipe; one that cannot be a file is a slip.
void refuse_unknown_command(const std::string& word) {
  std::error_code error;
  if (word.starts_with('-') || word.find_first_of("./") != std::string::npos ||
      std::filesystem::exists(word, error))
    return;
  for (const char* training : {"train", "finetune", "fine-tune", "sft", "run", "fit"})
    if (word == training)
      fail(cat("no command ", word,
               ": training needs no word before the recipe: ", "glmtune RECIPE.yaml"));
  static const std::vector<std::string> kCommands{"check",   "preview", "verify",
                                                  "inspect", "init",    "docs-recipe"};
  fail(cat("no command ", word, "; nearest: ", train::nearest(word, kCommands),
           "; glmtune RECIPE.yaml trains; see glmtune --help"));
}

int dispatch(std::span<const std::string> words) {
  if (words.empty()) {
    std::cerr << kOverview;
    return exit_status(ExitCode::kUserError);
  }
  const std::string& first = words.front();
  const auto rest = words.subspan(1);
  if (first == "--help" || first == "-h" || first == "help") throw Help{kOverview};
  if (first == "--version") throw Help{cat(kVersion, "\n")};
  if (first == "check") return check_command(rest);
  if (first == "preview") return preview_command(rest);
  if (first == "verify") return verify_command(rest);
  if (first == "inspect") return inspect_command(rest);
  if (first == "init") return init_command(rest);
  if (first == "docs-recipe") return docs_recipe_command(rest);
  for (const char* later : {"plan", "merge", "bench"})
    if (first == later) fail(cat("glmtune ", later, " does not exist yet"));
  refuse_unknown_command(first);
  return train_command(words);
}

int report(const char* kind, const std::string& message, ExitCode code) {
  std::cout.flush();
  std::cerr << "glmtune: " << kind << io::printable(message, io::LineEnds::kKeep) << "\n";
  return exit_status(code);
}

int status_of(std::span<const std::string> words) {
  try {
    return dispatch(words);
  } catch (const Help& help) {
    std::cout << help.text;
    return exit_status(ExitCode::kOk);
  } catch (const MachineError& e) {
    return report("machine error: ", e.what(), ExitCode::kMachineError);
  } catch (const Error& e) {
    return report("error: ", e.what(), ExitCode::kUserError);
  } catch (const std::bad_alloc&) {
    return report("machine error: ", "out of memory", ExitCode::kMachineError);
  } catch (const std::filesystem::filesystem_error& e) {
    // What a file system refuses; where the path matters, the caller has said more before.
    const bool users = io::is_users_error(e.code().value());
    return report(
        users ? "error: " : "machine error: ", cat(e.path1().string(), ": ", e.code().message()),
        users ? ExitCode::kUserError : ExitCode::kMachineError);
  } catch (const std::exception& e) {
    return report("internal error: ", e.what(), ExitCode::kInternalError);
  }
}

// Whether whoever reads standard output has gone, which a pipe into `head` means to do.
bool reader_has_gone() {
  struct pollfd out {};
  out.fd = STDOUT_FILENO;
  out.events = POLLOUT;
  return ::poll(&out, 1, 0) == 1 && (out.revents & POLLERR) != 0;
}

}  // namespace

int run_command_line(std::span<const std::string> words) {
  const int status = status_of(words);
  std::cout.flush();
  if (std::cout || status != exit_status(ExitCode::kOk)) return status;
  if (reader_has_gone()) return exit_status(ExitCode::kMachineError);
  return report(
      "machine error: ", "standard output could not be written; what is there is not complete",
      ExitCode::kMachineError);
}

}  // namespace glmtune::apps
