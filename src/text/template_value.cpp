#include "text/template_value.h"

#include <algorithm>

#include "base/cat.h"

namespace glmtune::text::jinja {
namespace {

// Nesting that recursion over values can bear; JSON from files is bounded by its parser.
constexpr int kMaxDepth = 800;

int depth_of(const Val& v) {
  if (v.is_sequence()) return v.list().depth;
  if (v.is(Kind::kDict)) return v.dict().depth;
  return 0;
}

int nested(int depth) {
  if (depth >= kMaxDepth) raise("RecursionError", "values are nested too deeply");
  return depth + 1;
}

Val from_json(Heap& heap, const io::Value& v, Source source) {
  Val out;
  switch (v.kind()) {
    case io::Value::Kind::kNull:
      out = none();
      break;
    case io::Value::Kind::kBool:
      out = boolean(v.as_bool());
      break;
    case io::Value::Kind::kInt:
      out = integer(v.as_int());
      break;
    case io::Value::Kind::kDouble:
      out = number(v.as_double());
      break;
    case io::Value::Kind::kString:
      out = plain_string(&heap, v.as_string());
      break;
    case io::Value::Kind::kArray: {
      std::vector<Val> items;
      items.reserve(v.size());
      for (const io::Value& item : v.as_array()) items.push_back(from_json(heap, item, source));
      out = list(heap, std::move(items));
      break;
    }
    case io::Value::Kind::kObject: {
      DictObject::Items items;
      items.reserve(v.size());
      for (const auto& [key, value] : v.as_object()) {
        items.emplace_back(plain_string(&heap, key, source), from_json(heap, value, source));
      }
      out = dict(heap, std::move(items));
      break;
    }
  }
  out.source = source;
  return out;
}

Val from_message(Heap& heap, const io::Value& v, std::int32_t index) {
  if (!v.is_object()) return from_json(heap, v, {Origin::kData, Field::kOther, index});
  DictObject::Items items;
  items.reserve(v.size());
  for (const auto& [key, value] : v.as_object()) {
    items.emplace_back(plain_string(&heap, key, {Origin::kData, Field::kOther, index}),
                       from_json(heap, value, {Origin::kData, field_of(key), index}));
  }
  Val out = dict(heap, std::move(items));
  auto& object = static_cast<DictObject&>(*out.object);
  object.reads = std::make_unique<std::vector<bool>>(object.items.size(), false);
  out.source = {Origin::kData, Field::kNone, index};
  return out;
}

}  // namespace

void raise(std::string kind, std::string what) {
  throw Raise{std::move(kind), std::move(what)};
}

void Heap::too_many_steps() const {
  raise("LimitError", cat("the template needs more than ", limits_.max_steps, " steps"));
}

void Heap::too_many_bytes() const {
  raise("LimitError", cat("the template needs more than ", limits_.max_bytes, " bytes of memory"));
}

void Heap::keep(std::shared_ptr<Cyclic> object) {
  charge(sizeof(object));
  kept_.push_back(std::move(object));
}

void Heap::take_apart() {
  for (const auto& object : kept_) object->drop_contents();
  kept_.clear();
}

ListObject::ListObject(Heap* heap, std::vector<Val> v)
    : Object(heap, v.capacity() * sizeof(Val) + sizeof(ListObject)), items(std::move(v)), depth(1) {
  for (const Val& item : items) depth = std::max(depth, nested(depth_of(item)));
}

DictObject::DictObject(Heap* heap, Items i)
    : Object(heap, i.capacity() * sizeof(i[0]) + sizeof(DictObject)),
      items(std::move(i)),
      depth(1) {
  for (const auto& item : items) depth = std::max(depth, nested(depth_of(item.second)));
}

const Val* DictObject::found(std::size_t i) const {
  if (reads) (*reads)[i] = true;
  return &items[i].second;
}

const Val* DictObject::find(std::string_view key) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Val& k = items[i].first;
    if (k.is(Kind::kString) && k.string().text == key) return found(i);
  }
  return nullptr;
}

const Val* DictObject::find(Heap& heap, const Val& key) const {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (equals(heap, items[i].first, key)) return found(i);
  }
  return nullptr;
}

void DictObject::read_all() const {
  if (reads) reads->assign(items.size(), true);
}

Val* NamespaceObject::find(std::string_view name) {
  for (auto& [k, v] : items) {
    if (k == name) return &v;
  }
  return nullptr;
}

Val none() {
  Val v;
  v.kind = Kind::kNone;
  return v;
}

Val boolean(bool b) {
  Val v;
  v.kind = Kind::kBool;
  v.boolean = b;
  return v;
}

Val integer(std::int64_t i) {
  Val v;
  v.kind = Kind::kInt;
  v.integer = i;
  return v;
}

Val number(double d) {
  Val v;
  v.kind = Kind::kFloat;
  v.number = d;
  return v;
}

Val undefined(std::string what) {
  Val v;
  v.object = std::make_shared<StringObject>(nullptr, std::move(what), std::vector<Run>());
  return v;
}

Val unsafe(const Val& object, std::string_view name) {
  Val v;
  v.object = std::make_shared<UnsafeObject>(
      nullptr,
      cat("access to attribute '", name, "' of '", type_name(object), "' object is unsafe"),
      std::vector<Run>());
  return v;
}

Val plain_string(Heap* heap, std::string text, Source source) {
  Val v;
  v.kind = Kind::kString;
  v.source = source;
  v.object = std::make_shared<StringObject>(heap, std::move(text), std::vector<Run>());
  return v;
}

Val range(Heap& heap, std::vector<Val> items, std::int64_t begin, std::int64_t end,
          std::int64_t step) {
  Val v;
  v.kind = Kind::kList;
  v.object = std::make_shared<RangeObject>(&heap, std::move(items), begin, end, step);
  return v;
}

Val list(Heap& heap, std::vector<Val> items, Kind kind, std::string_view name) {
  Val v;
  v.kind = kind;
  auto object = std::make_shared<ListObject>(&heap, std::move(items));
  object->name = name;
  v.object = std::move(object);
  return v;
}

Val dict(Heap& heap, DictObject::Items items) {
  Val v;
  v.kind = Kind::kDict;
  v.object = std::make_shared<DictObject>(&heap, std::move(items));
  return v;
}

Val method(Val self, std::string name) {
  Val v;
  v.kind = Kind::kMethod;
  v.object = std::make_shared<MethodObject>(std::move(self), std::move(name));
  return v;
}

std::vector<std::pair<std::string, Val>> context_values(Heap& heap, const io::Value& context) {
  std::vector<std::pair<std::string, Val>> out;
  for (const auto& [key, value] : context.as_object()) {
    if (key == "messages" && value.is_array()) {
      std::vector<Val> messages;
      std::int32_t index = 0;
      for (const io::Value& m : value.as_array()) {
        messages.push_back(from_message(heap, m, index++));
      }
      Val all = list(heap, std::move(messages));
      all.source = {Origin::kData, Field::kOther, -1};
      out.emplace_back(key, std::move(all));
    } else if (key == "tools") {
      out.emplace_back(key, from_json(heap, value, {Origin::kData, Field::kTools, -1}));
    } else {
      const bool data = key == "messages" || key == "documents";
      const Source source = data ? Source{Origin::kData, Field::kOther, -1}
                                 : Source{Origin::kSetting, Field::kNone, -1};
      out.emplace_back(key, from_json(heap, value, source));
    }
  }
  return out;
}

}  // namespace glmtune::text::jinja
