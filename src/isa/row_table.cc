// isa/row_table.cc: compiles the patterns and operand pictures of ptx.def.
#include "isa/row_table.h"

#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>

namespace orrery::isa {
namespace {

const std::unordered_map<std::string_view, std::string_view>& classes() {
  static const std::unordered_map<std::string_view, std::string_view> map = {
#define PTX_CLASS(name, words) {#name, words},
#include "isa/classes.def"
#undef PTX_CLASS
  };
  return map;
}

[[noreturn]] void bad_pattern(std::string_view pattern, std::string_view why) {
  throw std::logic_error(fmt::format("isa/ptx.def: {}: {}", pattern, why));
}

template <class F>
void split(std::string_view text, char at, F&& f) {
  while (true) {
    size_t i = text.find(at);
    f(text.substr(0, i));
    if (i == std::string_view::npos) return;
    text.remove_prefix(i + 1);
  }
}

void add_word(std::string_view pattern, Element& element, std::string_view name) {
  if (auto c = classes().find(name); c != classes().end()) {
    split(c->second, ' ', [&](std::string_view w) {
      auto word = word_named(w);
      if (!word) bad_pattern(pattern, fmt::format("class {} names {}", name, w));
      element.words.push_back(*word);
    });
  } else if (auto word = word_named(name)) {
    element.words.push_back(*word);
  } else {
    bad_pattern(pattern, fmt::format("unknown word {}", name));
  }
  element.kind = element.words.front().kind;
}

/// Reads elements until the end of `text`; a group in braces with several elements makes two variants of all.
std::vector<Variant> read_elements(std::string_view pattern, std::string_view text) {
  std::vector<Variant> variants(1);
  while (!text.empty()) {
    if (text[0] == '{') {
      size_t close = text.find('}');
      if (close == std::string_view::npos) bad_pattern(pattern, "no closing brace");
      auto inner = read_elements(pattern, text.substr(1, close - 1));
      text.remove_prefix(close + 1);
      if (inner.size() != 1) bad_pattern(pattern, "nested groups");
      if (inner[0].size() == 1) {
        inner[0][0].optional = true;
        for (auto& v : variants) v.push_back(inner[0][0]);
      } else {
        size_t n = variants.size();
        for (size_t i = 0; i < n; ++i) {
          variants.push_back(variants[i]);
          variants.back().insert(variants.back().end(), inner[0].begin(), inner[0].end());
        }
      }
      continue;
    }
    if (text[0] != '.') bad_pattern(pattern, "a word must start with a dot");
    text.remove_prefix(1);
    Element element;
    if (!text.empty() && text[0] == '(') {
      size_t close = text.find(')');
      if (close == std::string_view::npos) bad_pattern(pattern, "no closing parenthesis");
      split(text.substr(1, close - 1), '|', [&](std::string_view name) { add_word(pattern, element, name); });
      text.remove_prefix(close + 1);
    } else {
      size_t end = std::min(text.find_first_of(".{"), text.size());
      add_word(pattern, element, text.substr(0, end));
      text.remove_prefix(end);
    }
    for (auto& v : variants) v.push_back(element);
  }
  return variants;
}

// -- operand pictures

OperandSlot read_slot(std::string_view picture, std::string_view text) {
  OperandSlot slot;
  auto take_suffix = [&](std::string_view suffix) {
    if (!text.ends_with(suffix)) return false;
    text.remove_suffix(suffix.size());
    return true;
  };
  if (size_t colon = text.rfind(':'); colon != std::string_view::npos) {
    std::string_view t = text.substr(colon + 1);
    text = text.substr(0, colon);
    if (t == "any") {
      slot.type_from = OperandSlot::unchecked;
    } else if (t == "w") {
      slot.type_from = OperandSlot::twice;
    } else if (t.size() == 1 && t[0] >= '0' && t[0] <= '9') {
      slot.type_index = uint8_t(t[0] - '0');
    } else {
      slot.type_from = OperandSlot::fixed;
      slot.type = type_named(t);
      if (slot.type == Type::none) bad_pattern(picture, "unknown operand type");
    }
  }
  if (text.starts_with('[')) {
    slot.kind = text.find('*') != std::string_view::npos ? OperandSlot::address_parts : OperandSlot::address;
    slot.type_from = OperandSlot::unchecked;
    slot.name = text.substr(1, text.find_first_of("*]") - 1);
    return slot;
  }
  if (text.starts_with('{')) {
    slot.kind = take_suffix("?") ? OperandSlot::vec_or_src : OperandSlot::vec;
    slot.name = text.substr(1, text.find('}') - 1);
    return slot;
  }
  if (text.starts_with('#') || text.starts_with('!') || text.starts_with('&') || text.starts_with('@')) {
    char c = text[0];
    text.remove_prefix(1);
    slot.may_negate = c == '!';
    if (c == '#') slot.kind = OperandSlot::imm;
    if (c == '&') slot.kind = OperandSlot::any;
    if (c == '@') slot.kind = text == "targets" ? OperandSlot::targets : OperandSlot::label;
    slot.name = text;
    return slot;
  }
  if (size_t bar = text.find('|'); bar != std::string_view::npos) {
    slot.kind = OperandSlot::pair;
    slot.may_single = text.find('{') != std::string_view::npos;
    text = text.substr(0, text.find_first_of("{|"));
    slot.may_sink = take_suffix("_");
    slot.name = text;
    return slot;
  }
  if (text == "_") {
    slot.kind = OperandSlot::sink;
    slot.name = text;
    return slot;
  }
  slot.may_sink = take_suffix("_");
  slot.name = text;
  if (text == "d" || text == "p") slot.kind = OperandSlot::dst;
  return slot;
}

/// Operands up to the end or the next group; a group that starts with `{, ` is optional and doubles the pictures.
std::vector<std::vector<OperandSlot>> read_pictures(std::string_view picture) {
  std::vector<std::vector<OperandSlot>> out(1);
  std::string_view text = picture;
  auto slot_end = [](std::string_view t) {
    int depth = 0;
    for (size_t i = 0; i < t.size(); ++i) {
      if (t.substr(i).starts_with("{, ") || (t[i] == '}' && depth == 0)) return i;
      if (t[i] == '[' || t[i] == '{') ++depth;
      if (t[i] == ']' || t[i] == '}') --depth;
      if (t[i] == ',' && depth == 0) return i;
    }
    return t.size();
  };
  while (!text.empty()) {
    bool optional = text.starts_with("{, ");
    if (optional) text.remove_prefix(3);
    else if (text.starts_with(", ")) text.remove_prefix(2);
    size_t end = slot_end(text);
    OperandSlot slot = read_slot(picture, text.substr(0, end));
    text.remove_prefix(end);
    if (optional) {
      if (!text.starts_with('}')) bad_pattern(picture, "an optional group holds one operand");
      text.remove_prefix(1);
      size_t n = out.size();
      for (size_t i = 0; i < n; ++i) {
        out.push_back(out[i]);
        out.back().push_back(slot);
      }
    } else {
      for (auto& p : out) p.push_back(slot);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.size() < b.size(); });
  return out;
}

Row make_row(Op op, std::string_view pattern, std::string_view operands, uint32_t effects, Timing timing) {
  Row r{op, pattern, operands, effects, timing, {}};
  r.any_operands = operands == "*";
  r.is_call = operands == "call";
  if (!r.any_operands && !r.is_call) r.pictures = read_pictures(operands);
  return r;
}

Table make_table() {
  using namespace effect;
  Table t;
#define PTX_OP(name, spelling)
#define PTX_ROW(op, pattern, operands, effects, timing) \
  t.rows.push_back(make_row(Op::op, pattern, operands, effects, Timing::timing));
#include "isa/ptx.def"
#undef PTX_OP
#undef PTX_ROW
  for (size_t i = 0; i < size_t(Op::count); ++i)
    t.parts[i] = 1 + uint32_t(std::count(name_of(Op(i)).begin(), name_of(Op(i)).end(), '.'));
  for (uint32_t i = 0; i < t.rows.size(); ++i) {
    const Row& r = t.rows[i];
    std::string_view spelling = name_of(r.op);
    if (!r.pattern.starts_with(spelling)) bad_pattern(r.pattern, "does not start with its operation");
    t.variants.push_back(read_elements(r.pattern, r.pattern.substr(spelling.size())));
    auto& range = t.range[size_t(r.op)];
    if (range.second == 0) range = {i, i};
    if (range.second != i) bad_pattern(r.pattern, "the rows of an operation must stand together");
    range.second = i + 1;
  }
  return t;
}

}  // namespace

const Table& table() {
  static const Table t = make_table();
  return t;
}

const std::vector<Row>& rows() { return table().rows; }
const Row& row(uint16_t index) { return table().rows.at(index); }
std::span<const Row> rows_of(Op op) {
  auto [first, last] = table().range[size_t(op)];
  return std::span(table().rows).subspan(first, last - first);
}

}  // namespace orrery::isa
