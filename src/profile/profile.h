// A GPU as data: every number of gpus/*.toml with its unit and its source, behind typed accessors.
//
// Invariant: a loaded Profile holds every required field of fields.def, each with a citation. A field that
// the file does not give is absent, never zero: asking for it throws MissingField. Accessors note which
// fields were read, so that a report can list the assumed values it leaned on. What a field means is in
// fields.def only. A file may inherit from another (`inherits = "h100"`), or a section of it; the
// child's values win, and each value remembers its file.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace orrery {

using Count = std::int64_t;
using Ratio = double;
using Flag = bool;
using Text = std::string;

// Where a number comes from. Measured: by this project or in a cited log; paper: published; assumed: by
// analogy.
enum class Source { kDatasheet, kMeasured, kPaper, kAssumed };

enum class FieldId : std::uint16_t {
#define FIELD(type, accessor, key, unit, need, meaning) accessor,
#include "profile/fields.def"
#undef FIELD
  kCount
};

// One row of the catalogue of fields (fields.def).
struct FieldSpec {
  FieldId id;
  std::string_view key;   // "section.key"
  std::string_view unit;  // unit that the documentation shows
  bool required;
  std::string_view meaning;
};

// One value of a profile: the number in base units, and where it stands.
struct FieldValue {
  double number = 0;   // base units (bytes, seconds, hertz, ...); 0 or 1 for flags
  std::string text;    // for fields of unit "text"
  double written = 0;  // as written in the file
  std::string unit;    // as written in the file
  Source source = Source::kAssumed;
  std::string cite;
  std::string file;  // path, or "built-in:NAME.toml"
  int line = 0;
};

// The profile file is wrong; what() has file, line, and the meaning of the field.
struct ProfileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// A field that this GPU's file does not give was asked for; what() names field and meaning.
struct MissingField : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Profile {
 public:
  Profile();

  // The short name it was loaded by, for example "h200".
  const std::string& id() const { return id_; }

  // Typed access; throws MissingField when the file has no such value.
#define FIELD(type, accessor, key, unit, need, meaning) type accessor() const;
#include "profile/fields.def"
#undef FIELD

  // Whether the file gives the field.
  bool has(FieldId field) const { return values_[index(field)].has_value(); }
  // The value with its provenance; throws MissingField. Does not count as a use.
  const FieldValue& at(FieldId field) const;
  // Replaces a value, for what-if questions; `number` is in base units and the source becomes assumed.
  void set(FieldId field, double number, std::string reason);

  // Fields read so far through the typed accessors whose source is `assumed`, in catalogue order.
  std::vector<FieldId> assumed_fields_used() const;
  // Hash of all numbers and texts, for caches keyed by profile.
  std::uint64_t fingerprint() const;

 private:
  friend class ProfileLoader;
  static std::size_t index(FieldId field) { return static_cast<std::size_t>(field); }
  const FieldValue& use(FieldId field) const;

  std::string id_;
  std::vector<std::optional<FieldValue>> values_;
  std::shared_ptr<std::atomic<bool>[]> used_;  // shared by copies: a what-if copy leans on the same record
};

// The catalogue, in file order.
const std::vector<FieldSpec>& profile_fields();
// The catalogue row of a field.
const FieldSpec& field_spec(FieldId field);
// The field of a "section.key" name, if there is one.
std::optional<FieldId> find_field(std::string_view key);
// "datasheet", "measured", "paper" or "assumed".
std::string_view source_name(Source source);

// Loads a GPU by name ("h200", searched in $ORRERY_GPUS and then among the built-in files) or by path
// (contains a slash or ends in .toml). Throws ProfileError.
Profile load_profile(const std::string& name_or_path);
// Loads the GPU in whose file a value stands: the one that an inherited value was given for.
Profile load_profile_of(const FieldValue& value);
// Names that load_profile accepts without a path, sorted; bases that only others inherit from are left out.
std::vector<std::string> list_profiles();

// SMs of each group that a cluster must lie within: the profile's sm.groups; where it has none (or SMs were added for a what-if), GPCs, which
// have SMs two by two and as evenly as can be.
std::vector<uint64_t> sm_groups_of(const Profile& gpu);

// How many clusters of `size` blocks run at once where an SM holds `per_sm` of the blocks (both at least 1).
uint64_t clusters_at_once(const Profile& gpu, uint64_t size, uint64_t per_sm = 1);

}  // namespace orrery
