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
