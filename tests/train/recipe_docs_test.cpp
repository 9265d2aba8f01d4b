#include "train/recipe_docs.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "train/recipe_support.h"
#include "train/schema.h"

namespace glmtune::train {
namespace {

TEST(RecipeDocs, TheFileInTheRepositoryIsCurrent) {
  std::ifstream in(std::string(GLMTUNE_SOURCE) + "/docs/recipe.md");
  ASSERT_TRUE(in.good()) << "docs/recipe.md is missing: glmtune docs-recipe > docs/recipe.md";
  std::ostringstream text;
  text << in.rdbuf();
  EXPECT_TRUE(text.str() == recipe_docs())
      << "docs/recipe.md is out of date: glmtune docs-recipe > docs/recipe.md";
}

TEST(RecipeDocs, ItsFirstRecipeIsOneThatRuns) {
  const RecipeFile file = parse(std::string(minimal_recipe()));
  EXPECT_EQ(not_runnable_line(file.checked), "");
  EXPECT_TRUE(file.checked.warnings.empty());
  EXPECT_TRUE(file.checked.no_counterpart.empty());
}

TEST(RecipeDocs, EveryKeyIsListedOnceByWhatBecomesOfIt) {
  const std::string page = recipe_docs();
  const auto at = [&](const char* heading) { return page.find(heading); };
  const std::size_t runs = at("\n## Every key that runs"), refused = at("\n## Refused by a run"),
                    inert = at("\n## Accepted without effect"), targets = at("\n## Targets");
  EXPECT_EQ(page.find("### Outside sections", at("### Outside sections") + 1), std::string::npos);
  const auto listed = [&](const std::string& key, std::size_t begin, std::size_t end) {
    const std::size_t found = page.find("| `" + key + "`", begin);
    return found < end;
  };
  EXPECT_TRUE(listed("optimizer.lr", runs, refused));
  for (const char* key : {"peft.dim", "distributed.pp_size", "distributed.pipeline.pp_schedule"}) {
    EXPECT_TRUE(listed(key, refused, inert)) << key;
    EXPECT_FALSE(listed(key, runs, refused)) << key;
  }
  EXPECT_TRUE(listed("optimizer.foreach", inert, targets));
  EXPECT_NE(page.find("| refused with `peft` |"), std::string::npos);
}

TEST(RecipeDocs, EveryKeyHasAMeaning) {
  for (const KeyRow& row : schema_rows()) {
    EXPECT_FALSE(row.doc.empty()) << row.path;
    EXPECT_TRUE(row.doc.ends_with('.')) << row.path;
  }
}

TEST(RecipeDocs, EveryTargetGroupAndParentIsThere) {
  for (const KeyRow& row : schema_rows()) {
    if (row.type == KeyType::kTarget || row.type == KeyType::kTargetOrSection) {
      EXPECT_FALSE(known_targets(row.values).empty()) << row.path;
    }
  }
  // A key without a row for the section above it could never be reached.
  const auto walk = [](const auto& self, const SchemaNode& node) -> void {
    for (const SchemaNode::Child& child : node.children) {
      EXPECT_NE(child.node->row, nullptr) << child.name;
      self(self, *child.node);
    }
  };
  walk(walk, schema_tree());
}

}  // namespace
}  // namespace glmtune::train
