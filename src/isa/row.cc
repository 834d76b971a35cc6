// isa/row.cc: matches dotted names against the patterns of ptx.def, and spells forms.
//
// Matching takes types and spaces in order; every other word fills the first free element that names it.
#include "isa/row.h"

#include <fmt/format.h>

#include <algorithm>

#include "isa/row_table.h"

namespace orrery::isa {
namespace {

struct NameWord {
  Word word;
  uint32_t offset = 0;
  std::string_view text;
};

/// What went wrong with one variant, and how far it got (more matched words is nearer).
struct Miss {
  int matched = -1;
  const NameWord* refused = nullptr;   // a word that it does not take
  const Element* missing = nullptr;    // or an element that the name lacks
  const Row* row = nullptr;
};

/// Positional words of one kind against the elements of that kind.
bool match_sequence(const Variant& v, size_t element, Word::Kind kind, std::span<const NameWord> words, Miss& miss) {
  while (element < v.size() && v[element].kind != kind) ++element;
  if (element == v.size()) {
    if (!words.empty()) miss.refused = &words[0];
    return words.empty();
  }
  if (!words.empty() && v[element].names(words[0].word) &&
      match_sequence(v, element + 1, kind, words.subspan(1), miss)) {
    ++miss.matched;
    return true;
  }
  if (v[element].optional) return match_sequence(v, element + 1, kind, words, miss);
  if (words.empty()) miss.missing = &v[element];
  else miss.refused = &words[0];
  return false;
}

struct SplitName {
  std::vector<NameWord> types, spaces, others;
};

bool match_variant(const Variant& v, const SplitName& name, Miss& miss) {
  miss = {};
  miss.matched = 0;
  uint64_t filled = 0;
  bool ok = true;
  size_t after_layout = 0;  // .row and .col say which matrix they mean by their order
  for (const NameWord& w : name.others) {
    bool layout = w.word.kind == Word::mod && (Mod(w.word.value) == Mod::row || Mod(w.word.value) == Mod::col);
    size_t i = layout ? after_layout : 0;
    while (i < v.size() && ((filled >> i & 1) || !v[i].names(w.word))) ++i;
    if (i == v.size()) {
      ok = false;
      if (!miss.refused) miss.refused = &w;
    } else {
      filled |= uint64_t(1) << i;
      if (layout) after_layout = i + 1;
      ++miss.matched;
    }
  }
  for (size_t i = 0; i < v.size(); ++i) {
    bool positional = v[i].kind == Word::type || v[i].kind == Word::space;
    if (!positional && !v[i].optional && !(filled >> i & 1)) {
      ok = false;
      if (!miss.missing) miss.missing = &v[i];
    }
  }
  Miss part;
  part.matched = 0;
  bool types = match_sequence(v, 0, Word::type, name.types, part);
  bool spaces = match_sequence(v, 0, Word::space, name.spaces, part);
  miss.matched += part.matched * 2;
  if (!types || !spaces) {
    if (!miss.refused) miss.refused = part.refused;
    if (!miss.missing) miss.missing = part.missing;
  }
  return ok && types && spaces;
}

std::string spell(const Word& w) {
  switch (w.kind) {
    case Word::mod: return std::string(name_of(Mod(w.value)));
    case Word::type: return std::string(name_of(Type(w.value)));
    case Word::space: return std::string(name_of(Space(w.value)));
    case Word::vec: return fmt::format("v{}", w.value);
    case Word::shape: break;
  }
  uint32_t m = w.value >> 20, n = w.value >> 10 & 1023, k = w.value & 1023;
  return k ? fmt::format("m{}n{}k{}", m, n, k) : fmt::format("m{}n{}", m, n);
}

void describe(const Miss& miss, std::string_view op, NameMatch& out) {
  if (miss.refused) {
    out.error = fmt::format("'.{}' does not fit here; the nearest form is {}", miss.refused->text, miss.row->pattern);
    out.error_offset = miss.refused->offset;
    return;
  }
  std::string words;
  for (size_t i = 0; i < miss.missing->words.size() && i < 8; ++i) words += " ." + spell(miss.missing->words[i]);
  if (miss.missing->words.size() > 8) words += " ...";
  out.error = fmt::format("{} lacks {}{}; the nearest form is {}", op,
                          miss.missing->words.size() == 1 ? "the word" : "one of", words, miss.row->pattern);
}

/// The operation with the longest spelling that starts `dotted`, and where its words start.
Op find_op(std::string_view dotted, size_t& end) {
  Op op = Op::none;
  for (size_t dot = 0; dot != std::string_view::npos;) {
    dot = dotted.find('.', dot + (dot != 0));
    if (dot == 0) break;
    if (Op o = op_named(dotted.substr(0, dot)); o != Op::none) {
      op = o;
      end = std::min(dot, dotted.size());
    }
  }
  return op;
}

void put_word(Form& form, const NameWord& w, int layouts) {
  switch (w.word.kind) {
    case Word::mod:
      form.mods.set(w.word.value);
      if (Mod(w.word.value) == Mod::col && layouts >= 0) form.mods.set(size_t(layouts == 0 ? Mod::col_a : Mod::col_b));
      break;
    case Word::type:
      if (form.n_types < form.types.size()) form.types[form.n_types++] = Type(w.word.value);
      break;
    case Word::space:
      if (form.n_spaces < form.spaces.size()) form.spaces[form.n_spaces++] = Space(w.word.value);
      break;
    case Word::vec: form.vec = uint8_t(w.word.value); break;
    case Word::shape:
      form.shape = {uint16_t(w.word.value >> 20), uint16_t(w.word.value >> 10 & 1023), uint16_t(w.word.value & 1023)};
  }
}

/// Splits the words after the operation; false when one of them is not a word of PTX.
bool split_words(std::string_view dotted, size_t at, NameMatch& out, SplitName& name) {
  int layouts = 0;
  bool two_layouts = out.form.op == Op::mma || out.form.op == Op::mma_sp || out.form.op == Op::wmma_mma;
  while (at < dotted.size()) {
    size_t start = at + 1;
    at = std::min(dotted.find('.', start), dotted.size());
    NameWord w;
    w.text = dotted.substr(start, at - start);
    w.offset = uint32_t(start);
    auto word = word_named(w.text);
    if (!word) {
      out.error = fmt::format("'.{}' is not a word of any PTX instruction", w.text);
      out.error_offset = w.offset;
      return false;
    }
    w.word = *word;
    bool layout = w.word.kind == Word::mod && (Mod(w.word.value) == Mod::row || Mod(w.word.value) == Mod::col);
    put_word(out.form, w, two_layouts ? layouts : -1);
    layouts += layout;
    (w.word.kind == Word::type ? name.types : w.word.kind == Word::space ? name.spaces : name.others).push_back(w);
    if (name.others.size() > 40 || name.types.size() > out.form.types.size() ||
        name.spaces.size() > out.form.spaces.size()) {
      out.error = fmt::format("too many words in '{}'", dotted.substr(0, 60));
      out.error_offset = w.offset;
      return false;
    }
  }
  return true;
}

/// Appends the words of `form` in the order of `v`; false when some word of the form has no place in it.
bool spell_variant(const Form& form, const Variant& v, std::string& out) {
  int type = 0, space = 0, layouts = 0;
  std::bitset<size_t(Mod::count)> left = form.mods;
  left.reset(size_t(Mod::col_a)).reset(size_t(Mod::col_b));
  bool two_layouts = form.op == Op::mma || form.op == Op::mma_sp || form.op == Op::wmma_mma;
  uint32_t shape = uint32_t(form.shape.m) << 20 | uint32_t(form.shape.n) << 10 | form.shape.k;
  bool vec = form.vec == 1, shaped = shape == 0;
  for (const Element& e : v) {
    const Word* pick = nullptr;
    Word wanted;
    if (e.kind == Word::type && type < form.n_types) wanted = {Word::type, uint32_t(form.types[type])};
    if (e.kind == Word::space && space < form.n_spaces) wanted = {Word::space, uint32_t(form.spaces[space])};
    if (e.kind == Word::vec) wanted = {Word::vec, form.vec};
    if (e.kind == Word::shape) wanted = {Word::shape, shape};
    for (const Word& w : e.words) {
      if (e.kind == Word::mod) {
        bool layout = Mod(w.value) == Mod::row || Mod(w.value) == Mod::col;
        bool here = left[w.value];
        if (layout && two_layouts) here = form.has(layouts == 0 ? Mod::col_a : Mod::col_b) == (Mod(w.value) == Mod::col);
        if (here) { pick = &w; break; }
      } else if (wanted.value != 0 && w == wanted) {
        pick = &w;
        break;
      }
    }
    if (!pick && e.kind == Word::mod && !e.optional)
      for (const Word& w : e.words)
        if (form.mods[w.value]) pick = &w;
    if (!pick) {
      if (e.optional) continue;
      return false;
    }
    out += '.';
    out += spell(*pick);
    if (e.kind == Word::type) ++type;
    if (e.kind == Word::space) ++space;
    if (e.kind == Word::vec) vec = true;
    if (e.kind == Word::shape) shaped = true;
    if (e.kind == Word::mod) {
      left.reset(pick->value);
      layouts += Mod(pick->value) == Mod::row || Mod(pick->value) == Mod::col;
    }
  }
  return left.none() && type == form.n_types && space == form.n_spaces && vec && shaped;
}

std::optional<Word> number_word(std::string_view t) {
  auto number = [&](size_t& i) {
    uint32_t v = 0;
    size_t start = i;
    while (i < t.size() && t[i] >= '0' && t[i] <= '9' && i - start < 4) v = v * 10 + uint32_t(t[i++] - '0');
    return i == start ? UINT32_MAX : v;
  };
  size_t i = 1;
  if (t.size() < 2) return {};
  uint32_t first = number(i);
  if (first == UINT32_MAX || first > 1023) return {};
  if (t[0] == 'v' && i == t.size() && (first == 2 || first == 4 || first == 8 || first == 16 || first == 32))
    return Word{Word::vec, first};
  if (t[0] != 'm' || i >= t.size() || t[i] != 'n') return {};
  uint32_t n = number(++i), k = 0;
  if (n == UINT32_MAX || n > 1023) return {};
  if (i < t.size() && t[i] == 'k') k = number(++i);
  if (i != t.size() || k > 1023) return {};
  return Word{Word::shape, first << 20 | n << 10 | k};
}

}  // namespace

std::string_view name_of(Timing t) {
  static constexpr std::string_view names[] = {"alu",    "fma", "imul", "half", "fp64", "sfu",  "conv", "move", "ls",
                                               "atom",   "tex", "tensor", "tma", "warp", "bar", "ctrl", "misc"};
  return t < Timing::count ? names[size_t(t)] : "";
}

bool picture_applies(std::span<const OperandSlot> picture, const Form& form) {
  unsigned has = 0;
  for (const OperandSlot& s : picture)
    has |= s.name == "policy" ? 1u : s.name == "cta_mask" ? 2u : s.name == "byte_mask" ? 4u : s.name == "offsets" ? 8u : 0u;
  bool im2col = form.has(Mod::im2col) || form.has(Mod::im2col_w) || form.has(Mod::im2col_w_128);
  unsigned wants = (form.has(Mod::L2_cache_hint) ? 1u : 0u) | (form.has(Mod::multicast_cluster) ? 2u : 0u) |
                   (form.has(Mod::cp_mask) ? 4u : 0u) | (im2col ? 8u : 0u);
  return has == wants;
}

std::optional<Word> word_named(std::string_view text) {
  // types first: .b1 and .b32 are also selectors of video operands, which no dotted name contains
  if (Type t = type_named(text); t != Type::none) return Word{Word::type, uint32_t(t)};
  if (Mod m = mod_named(text); m < Mod::col_a) return Word{Word::mod, uint32_t(m)};
  if (Space s = space_named(text); s != Space::none) return Word{Word::space, uint32_t(s)};
  return number_word(text);
}

NameMatch match_name(std::string_view dotted) {
  NameMatch out;
  size_t at = 0;
  out.form.op = find_op(dotted, at);
  if (out.form.op == Op::none) {
    out.error = fmt::format("'{}' is not a PTX instruction", dotted.substr(0, std::min<size_t>(dotted.find('.'), 60)));
    return out;
  }
  if (out.form.op == Op::mma && dotted.substr(at).starts_with(".sp::ordered_metadata")) out.form.op = Op::mma_sp;
  SplitName name;
  if (!split_words(dotted, at, out, name)) return out;
  auto [first, last] = table().range[size_t(out.form.op)];
  Miss nearest, miss;
  for (uint32_t r = first; r < last; ++r) {
    bool matched = false;
    for (const Variant& v : table().variants[r]) {
      matched = matched || match_variant(v, name, miss);
      if (miss.matched > nearest.matched) {
        nearest = miss;
        nearest.row = &table().rows[r];
      }
    }
    if (matched) out.rows.push_back(uint16_t(r));
  }
  if (out.rows.empty() && nearest.row) describe(nearest, name_of(out.form.op), out);
  else if (out.rows.empty()) out.error = fmt::format("{} has no form", name_of(out.form.op));
  else out.form.row = out.rows[0];
  return out;
}

/// For a short pattern such as cvt's: every pair of the last two types.
static void add_pairs(const Row& row, const Variant& v, std::vector<std::string>& out) {
  if (v.size() < 2 || v[v.size() - 1].kind != Word::type || v[v.size() - 2].kind != Word::type) return;
  for (const Word& a : v[v.size() - 2].words)
    for (const Word& b : v[v.size() - 1].words) {
      std::string name(name_of(row.op));
      for (size_t i = 0; i + 2 < v.size(); ++i)
        if (!v[i].optional) name += "." + spell(v[i].words[0]);
      name += "." + spell(a) + "." + spell(b);
      if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
    }
}

std::vector<std::string> spellings(const Row& row) {
  std::vector<std::string> out;
  auto add = [&](const Variant& v, size_t changed, const Word* word) {
    std::string name(name_of(row.op));
    for (size_t i = 0; i < v.size(); ++i) {
      if (i == changed) name += "." + spell(*word);
      else if (!v[i].optional) name += "." + spell(v[i].words[0]);
    }
    if (name.starts_with("mma.sp.sp::")) name.erase(3, 3);
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
  };
  for (const Variant& v : table().variants[size_t(&row - rows().data())]) {
    add(v, v.size(), nullptr);
    for (size_t i = 0; i < v.size(); ++i)
      for (const Word& w : v[i].words) add(v, i, &w);
    if (v.size() < 5) add_pairs(row, v, out);
  }
  return out;
}

std::string to_string(const Form& form) {
  std::string head(name_of(form.op));
  auto [first, last] = table().range[size_t(form.op)];
  for (uint32_t i = 0; first + i < last; ++i) {  // the form's own row first
    uint32_t r = i == 0 ? form.row : first + i - (first + i <= form.row);
    if (r < first || r >= last) continue;
    for (const Variant& v : table().variants[r]) {
      std::string words;
      if (!spell_variant(form, v, words)) continue;
      if (form.op == Op::mma_sp && words.starts_with(".sp::")) return "mma" + words;
      return head + words;
    }
  }
  for (size_t m = 0; m < form.mods.size(); ++m)
    if (form.mods[m]) head += fmt::format(".{}", name_of(Mod(m)));
  return head;
}

}  // namespace orrery::isa
