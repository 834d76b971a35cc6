// Catalogue and typed access; loading is in load.cc.
#include "profile/profile.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <unordered_map>

namespace orrery {
namespace {

constexpr bool kRequired = true;
constexpr bool kOptional = false;

template <class T>
T as(const FieldValue& value) {
  if constexpr (std::is_same_v<T, Text>)
    return value.text;
  else if constexpr (std::is_same_v<T, Flag>)
    return value.number != 0;
  else if constexpr (std::is_same_v<T, Count>)
    return std::llround(value.number);
  else
    return T(value.number);
}

}  // namespace

const std::vector<FieldSpec>& profile_fields() {
  static const std::vector<FieldSpec> fields = {
#define FIELD(type, accessor, key, unit, need, meaning) {FieldId::accessor, key, unit, need, meaning},
#include "profile/fields.def"
#undef FIELD
  };
  return fields;
}

const FieldSpec& field_spec(FieldId field) { return profile_fields()[static_cast<std::size_t>(field)]; }

std::optional<FieldId> find_field(std::string_view key) {
  static const auto* by_key = [] {
    auto* map = new std::unordered_map<std::string_view, FieldId>;
    for (const FieldSpec& spec : profile_fields()) map->emplace(spec.key, spec.id);
    return map;
  }();
  auto it = by_key->find(key);
  if (it == by_key->end()) return std::nullopt;
  return it->second;
}

std::string_view source_name(Source source) {
  constexpr std::string_view names[] = {"datasheet", "measured", "paper", "assumed"};
  return names[static_cast<int>(source)];
}

Profile::Profile()
    : values_(profile_fields().size()), used_(new std::atomic<bool>[profile_fields().size()] {}) {}

const FieldValue& Profile::at(FieldId field) const {
  const auto& value = values_[index(field)];
  if (!value) {
    const FieldSpec& spec = field_spec(field);
    throw MissingField("profile " + id_ + " has no " + std::string(spec.key) + " (" +
                       std::string(spec.meaning) + ", in " + std::string(spec.unit) + ")");
  }
  return *value;
}

const FieldValue& Profile::use(FieldId field) const {
  const FieldValue& value = at(field);
  if (!used_[index(field)].load(std::memory_order_relaxed))
    used_[index(field)].store(true, std::memory_order_relaxed);
  return value;
}

void Profile::set(FieldId field, double number, std::string reason) {
  FieldValue value = values_[index(field)].value_or(FieldValue{});
  value.number = number;
  value.written = number;
  value.unit = "base units";
  value.source = Source::kAssumed;
  value.cite = std::move(reason);
  values_[index(field)] = std::move(value);
}

std::vector<FieldId> Profile::assumed_fields_used() const {
  std::vector<FieldId> result;
  for (const FieldSpec& spec : profile_fields()) {
    const auto& value = values_[index(spec.id)];
    if (value && value->source == Source::kAssumed && used_[index(spec.id)]) result.push_back(spec.id);
  }
  return result;
}

std::uint64_t Profile::fingerprint() const {
  std::uint64_t hash = 1469598103934665603ull;  // FNV-1a
  auto mix = [&hash](std::uint64_t word) { hash = (hash ^ word) * 1099511628211ull; };
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!values_[i]) continue;
    mix(i);
    mix(std::bit_cast<std::uint64_t>(values_[i]->number));
    for (char c : values_[i]->text) mix(static_cast<unsigned char>(c));
  }
  return hash;
}

#define FIELD(type, accessor, key, unit, need, meaning) \
  type Profile::accessor() const { return as<type>(use(FieldId::accessor)); }
#include "profile/fields.def"
#undef FIELD

namespace {

/// Numbers with spaces between; none when that is not what the text holds.
std::vector<uint64_t> numbers_in(const std::string& text) {
  std::istringstream in(text);
  std::vector<uint64_t> out;
  for (uint64_t n; in >> n;) out.push_back(n);
  return in.eof() ? out : std::vector<uint64_t>();
}

}  // namespace

std::vector<uint64_t> sm_groups_of(const Profile& gpu) {
  const uint64_t sms = uint64_t(gpu.sm_count());
  if (gpu.has(FieldId::sm_groups)) {
    const std::vector<uint64_t> groups = numbers_in(gpu.sm_groups());
    uint64_t in_groups = 0;
    for (uint64_t n : groups) in_groups += n;
    if (in_groups == sms) return groups;  // not when SMs were added for a what-if
  }
  const uint64_t gpcs = gpu.has(FieldId::gpc_count) ? std::max<uint64_t>(1, uint64_t(gpu.gpc_count())) : 1;
  const uint64_t larger = sms / 2 % gpcs, least = sms / 2 / gpcs * 2;
  std::vector<uint64_t> groups;
  for (uint64_t i = 0; i < gpcs; i++) groups.push_back(least + (i < larger ? 2 : 0));
  if (sms % 2) groups.push_back(1);
  std::erase(groups, 0u);
  return groups;
}

uint64_t clusters_at_once(const Profile& gpu, uint64_t size, uint64_t per_sm) {
  uint64_t at_once = 0;
  for (uint64_t n : sm_groups_of(gpu)) at_once += n * per_sm / size;
  return at_once;
}

}  // namespace orrery
