#pragma once
// Values of the template engine: what Python objects are to Jinja, each knowing the source of its
// text. Immutable except for namespaces and for iterators, which are used up.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template.h"

namespace glmtune::text::jinja {

// A Python exception raised by an operation; the evaluator adds the place.
struct Raise {
  std::string kind;
  std::string what;
};
[[noreturn]] void raise(std::string kind, std::string what);

// Where text comes from; Segment says what the members mean. A value of origin kData and field
// kNone is a whole message.
struct Source {
  Origin origin = Origin::kTemplate;
  Field field = Field::kNone;
  std::int32_t message = -1;
  bool operator==(const Source&) const = default;
};

// Counts steps and the bytes of living objects, and refuses to go beyond the limits. Objects that
// can form cycles are kept alive until the end and taken apart there.
class Heap {
 public:
  explicit Heap(const RenderLimits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;
  ~Heap() { take_apart(); }

  void step(std::size_t n = 1) {
    steps_ += n;
    if (steps_ > limits_.max_steps) too_many_steps();
  }
  void charge(std::size_t bytes) {
    if (bytes > limits_.max_bytes - live_) too_many_bytes();
    live_ += bytes;
  }
  void release(std::size_t bytes) { live_ -= bytes; }
  // Before making something of this size.
  void expect(std::size_t bytes) const {
    if (bytes > limits_.max_bytes - live_) too_many_bytes();
  }
  void keep(std::shared_ptr<struct Cyclic> object);

 private:
  [[noreturn]] void too_many_steps() const;
  [[noreturn]] void too_many_bytes() const;
  void take_apart();
  RenderLimits limits_;
  std::size_t steps_ = 0;
  std::size_t live_ = 0;
  std::vector<std::shared_ptr<Cyclic>> kept_;
};

class Charge {
 public:
  Charge() = default;
  Charge(Heap* heap, std::size_t bytes) : heap_(heap), bytes_(bytes) {
    if (heap_ != nullptr) heap_->charge(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (heap_ != nullptr) heap_->release(bytes_);
  }

 private:
  Heap* heap_ = nullptr;
  std::size_t bytes_ = 0;
};

struct Object {
  Object() = default;
  explicit Object(Heap* heap, std::size_t bytes) : charge(heap, bytes) {}
  virtual ~Object() = default;
  virtual std::string repr() const { return {}; }  // of what is neither text nor a container
  Charge charge;
};

// What may hold a reference to itself: namespaces, and scopes that macros remember.
struct Cyclic : Object {
  using Object::Object;
  virtual void drop_contents() = 0;
};

enum class Kind : std::uint8_t {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kTuple,
  kView,      // dict.items() and the like: has a length, no positions
  kIterator,  // what map, select, reverse ... return: no length, used up once
  kDict,
  kNamespace,
  kMacro,
  kFunction,
  kMethod,
  kLoop,
};

struct StringObject;
struct ListObject;
struct DictObject;

struct Val {
  Kind kind = Kind::kUndefined;
  Source source;  // of its text, where that has one source (see StringObject)
  union {
    bool boolean;
    std::int64_t integer = 0;
    double number;
  };
  std::shared_ptr<Object> object;

  bool is(Kind k) const { return kind == k; }
  bool is_sequence() const { return kind >= Kind::kList && kind <= Kind::kIterator; }
  bool is_range() const;  // a list that Python takes for none of its lists
  bool is_number() const { return kind >= Kind::kBool && kind <= Kind::kFloat; }
  const StringObject& string() const;
  const ListObject& list() const;
  const DictObject& dict() const;
};

struct Run {
  std::size_t end;
  Source source;
};
struct StringObject : Object {
  StringObject(Heap* heap, std::string t, std::vector<Run> r)
      : Object(heap, t.capacity() + r.capacity() * sizeof(Run) + sizeof(StringObject)),
        text(std::move(t)),
        runs(std::move(r)) {}
  std::string text;
  std::vector<Run> runs;  // empty: all of the Val's source
};
// Of an undefined value that the sandbox keeps from a template.
struct UnsafeObject : StringObject {
  using StringObject::StringObject;
};
struct ListObject : Object {
  ListObject(Heap* heap, std::vector<Val> v);
  std::vector<Val> items;
  int depth;                   // nesting
  bool used = false;           // of an iterator
  std::string_view name = {};  // of a view, an iterator or a range, as Python would print it
};
struct RangeObject : ListObject {
  RangeObject(Heap* heap, std::vector<Val> v, std::int64_t b, std::int64_t e, std::int64_t s)
      : ListObject(heap, std::move(v)), begin(b), end(e), step(s) {
    name = "range";
  }
  std::int64_t begin, end, step;
};
struct DictObject : Object {
  using Items = std::vector<std::pair<Val, Val>>;
  DictObject(Heap* heap, Items i);
  const Val* find(std::string_view key) const;  // a look-up of the template's, as the next two
  const Val* find(Heap& heap, const Val& key) const;
  void read_all() const;
  Items items;
  int depth;
  // Of a message: which of its items the template has looked at.
  std::unique_ptr<std::vector<bool>> reads;

 private:
  const Val* found(std::size_t i) const;
};
struct NamespaceObject : Cyclic {
  explicit NamespaceObject(Heap* heap) : Cyclic(heap, sizeof(NamespaceObject)) {}
  void drop_contents() override { items.clear(); }
  Val* find(std::string_view name);
  std::vector<std::pair<std::string, Val>> items;
  bool printing = false;  // its repr is being made: it holds itself
};
struct MethodObject : Object {
  MethodObject(Val s, std::string n) : self(std::move(s)), name(std::move(n)) {}
  Val self;
  std::string name;
};

inline const StringObject& Val::string() const {
  return static_cast<StringObject&>(*object);
}
inline const ListObject& Val::list() const {
  return static_cast<ListObject&>(*object);
}
inline bool Val::is_range() const {
  return is(Kind::kList) && !list().name.empty();
}
inline const DictObject& Val::dict() const {
  return static_cast<DictObject&>(*object);
}

// --- making values
Val none();
Val boolean(bool b);
Val integer(std::int64_t i);
Val number(double d);
Val undefined(std::string what);  // `what` is the message of the UndefinedError its use raises
// What the sandbox makes of an attribute that changes its object: its use is a SecurityError.
Val unsafe(const Val& object, std::string_view name);
Val plain_string(Heap* heap, std::string text, Source source = {});
Val list(Heap& heap, std::vector<Val> items, Kind kind = Kind::kList, std::string_view name = {});
Val range(Heap& heap, std::vector<Val> items, std::int64_t begin, std::int64_t end,
          std::int64_t step);
Val dict(Heap& heap, DictObject::Items items);
Val method(Val self, std::string name);
// The context of a render: messages, tools and documents become kData, the rest kSetting.
std::vector<std::pair<std::string, Val>> context_values(Heap& heap, const io::Value& context);

// --- Python's semantics
std::string_view type_name(const Val& v);
bool truth(const Val& v);
bool equals(Heap& heap, const Val& a, const Val& b, int depth = 0);
int compare(Heap& heap, const Val& a, const Val& b, std::string_view op,
            int depth = 0);  // <0, 0, >0
bool contains(Heap& heap, const Val& item, const Val& container);
void require_hashable(Heap& heap, const Val& v);  // TypeError for what no dict or set takes
std::size_t length(const Val& v);
double as_double(const Val& v);  // of bool, int, float
std::int64_t as_int(const Val& v, std::string_view what);
// The elements, a dict's keys, a string's characters; an iterator is used up.
std::shared_ptr<const ListObject> elements(Heap& heap, const Val& v);
std::string repr(Heap& heap, const Val& v, int depth = 0);
// The source that text made from all of `v` gets: data where any of it is data.
Source whole_source(Heap& heap, const Val& v, int depth = 0);
[[noreturn]] void undefined_error(const Val& v);

struct JsonOptions {
  bool ensure_ascii = false;
  bool indented = false;
  std::string indent;  // of one level
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
std::string dump_json(Heap& heap, const Val& v, const JsonOptions& options);  // as json.dumps

}  // namespace glmtune::text::jinja
