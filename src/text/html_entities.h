#pragma once
// HTML's character references, as Python's html.unescape reads them.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace glmtune::text {

struct Entity {
  std::size_t size = 0;  // bytes of its spelling; 0: the text begins with none
  std::string text;
};
// The reference that a text, which begins with &, begins with.
Entity read_entity(std::string_view text);

// The generated tables: names after the & (some with their semicolon only), sorted; numbers that
// stand for something else than their code point.
struct NamedEntity {
  std::string_view name, text;
};
struct NumberedEntity {
  char32_t code;
  std::string_view text;
};
extern const std::span<const NamedEntity> kNamedEntities;
extern const std::span<const NumberedEntity> kNumberedEntities;

}  // namespace glmtune::text
