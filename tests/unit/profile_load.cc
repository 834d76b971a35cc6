// The loader of GPU profiles: what it accepts, what it refuses and how it says so, and facts of the shipped
// files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "profile/profile.h"

namespace orrery {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string write_temp(const std::string& text) {
  static int serial = 0;
  auto path = std::filesystem::temp_directory_path() /
              ("orrery-profile-" + std::to_string(getpid()) + "-" + std::to_string(serial++) + ".toml");
  std::ofstream(path) << text;
  return path.string();
}

std::string error_of(const std::string& text) {
  std::string path = write_temp(text);
  std::string message;
  try {
    load_profile(path);
  } catch (const ProfileError& error) {
    message = error.what();
  }
  std::filesystem::remove(path);
  return message;
}

TEST(Profile, EveryShippedProfileLoads) {
  auto names = list_profiles();
  for (const char* name :
       {"h200", "h100", "h100-pcie", "gh200", "a100-40", "a100", "a6000", "rtx4090", "v100", "l4", "t4"})
    EXPECT_THAT(names, Contains(name));
  for (const auto& name : names) {
    Profile profile = load_profile(name);
    EXPECT_FALSE(profile.name().empty());
    EXPECT_GT(profile.sm_count(), 0);
    EXPECT_LE(profile.shared_per_block_optin(), profile.shared_per_sm());
  }
}

TEST(Profile, TextThatIsNoTomlIsAnError) {
  for (const char* text : {"[{xes]", "[", "a = {", "a = \"", "[[\n", "\x01", "a.=1"})
    EXPECT_THAT(error_of(text), HasSubstr("orrery-profile-")) << text;
}

TEST(Profile, UnitsBecomeBaseUnits) {
  Profile h200 = load_profile("h200");
  EXPECT_EQ(h200.memory_bandwidth().value(), 4.8e12);
  EXPECT_EQ(h200.clock_max().value(), 1.98e9);
  EXPECT_EQ(h200.shared_per_block_optin().count(), 227 * 1024);
  EXPECT_EQ(h200.l2_size().count(), 60 << 20);
  EXPECT_EQ(h200.compute_major(), 9);
  Seconds t = Bytes(4.8e12) / h200.memory_bandwidth();
  EXPECT_DOUBLE_EQ(t.value(), 1.0);
}

TEST(Profile, ValuesRememberWhereTheyStand) {
  Profile h200 = load_profile("h200");
  EXPECT_EQ(h200.at(FieldId::memory_bandwidth).file, "built-in:h200.toml");
  EXPECT_EQ(h200.at(FieldId::max_threads_per_sm).file, "built-in:sm_90.toml");
  EXPECT_GT(h200.at(FieldId::memory_bandwidth).line, 0);
  EXPECT_EQ(h200.at(FieldId::memory_bandwidth).source, Source::kDatasheet);
}

TEST(Profile, ASectionMayComeFromAnotherFile) {
  const std::string h200 = write_temp("inherits = \"h200\"\n[timing]\nlaunch = { value = 1, unit = \"cycles\", source = \"assumed\", cite = \"x\" }\n");
  const std::string file = write_temp("inherits = \"h100\"\n[timing]\ninherits = \"" + h200 + "\"\nl1_latency = { value = 2, unit = \"cycles\", source = \"assumed\", cite = \"x\" }\n");
  const Profile p = load_profile(file);
  EXPECT_EQ(p.at(FieldId::timing_l1_latency).written, 2);
  EXPECT_EQ(p.at(FieldId::timing_launch).written, 1);
  EXPECT_EQ(p.at(FieldId::timing_l2_bandwidth).file, "built-in:h200.toml");
  EXPECT_EQ(p.at(FieldId::memory_bandwidth).file, "built-in:h100.toml");
  EXPECT_EQ(load_profile_of(p.at(FieldId::timing_l2_bandwidth)).name(), "NVIDIA H200");
  EXPECT_EQ(load_profile_of(p.at(FieldId::timing_launch)).id(), std::filesystem::path(h200).stem().string());
  std::filesystem::remove(file), std::filesystem::remove(h200);
  EXPECT_THAT(error_of("inherits = \"h100\"\n[timing]\ninherits = 3\n"), HasSubstr(":3: inherits must be the name of another profile"));
  EXPECT_THAT(error_of("inherits = \"h100\"\n[timing]\ninherits = \"h9\"\n"), HasSubstr("unknown GPU 'h9'"));
  EXPECT_THAT(error_of("inherits = \"h100\"\n[timing]\ninherits = \"a100\"\n"), HasSubstr("a100.toml: has no section timing to inherit"));
  EXPECT_THAT(error_of("inherits = \"h100\"\n[bogus]\ninherits = \"h200\"\n"), HasSubstr("has no section bogus to inherit"));
  const std::string itself = std::filesystem::temp_directory_path() / ("orrery-itself-" + std::to_string(getpid()) + ".toml");
  std::ofstream(itself) << "inherits = \"h100\"\n[timing]\ninherits = \"" << itself << "\"\n";
  EXPECT_THROW(load_profile(itself), ProfileError);
  std::filesystem::remove(itself);
}

TEST(Profile, AssumedFieldsUsedAreListed) {
  Profile h200 = load_profile("h200");
  EXPECT_TRUE(h200.assumed_fields_used().empty());
  h200.memory_bandwidth();
  EXPECT_TRUE(h200.assumed_fields_used().empty());
  h200.copy_engines();
  EXPECT_THAT(h200.assumed_fields_used(), Contains(FieldId::copy_engines));
}

TEST(Profile, RefusalsNameFileLineAndMeaning) {
  const std::string head = "inherits = \"h200\"\n[memory]\n";
  EXPECT_THAT(error_of(head + "bandwidth = { value = 1, unit = \"GB/s\", source = \"datasheet\" }\n"),
              testing::AllOf(HasSubstr(":3: no cite"), HasSubstr("peak bandwidth of device memory")));
  EXPECT_THAT(error_of(head + "bandwidth = 4800\n"), HasSubstr(":3: needs { value, unit, source, cite }"));
  EXPECT_THAT(error_of(head + "bandwidth = { value = 1, source = \"paper\", cite = \"x\" }\n"),
              HasSubstr(":3: no unit"));
  EXPECT_THAT(error_of(head + "bandwidth = { value = 1, unit = \"W\", source = \"paper\", cite = \"x\" }\n"),
              HasSubstr("unit 'W' does not fit memory.bandwidth [GB/s]"));
  EXPECT_THAT(
      error_of(head + "bandwidth = { value = 1, unit = \"GB/s\", source = \"blog\", cite = \"x\" }\n"),
      HasSubstr("source must be datasheet, measured, paper or assumed"));
  EXPECT_THAT(
      error_of(head + "bandwith = { value = 1, unit = \"GB/s\", source = \"paper\", cite = \"x\" }\n"),
      HasSubstr("unknown field memory.bandwith"));
  EXPECT_THAT(
      error_of(head + "bandwidth = { value = -1, unit = \"GB/s\", source = \"paper\", cite = \"x\" }\n"),
      HasSubstr("finite and not negative"));
  EXPECT_THAT(
      error_of(head +
               "bandwidth = { value = \"fast\", unit = \"GB/s\", source = \"paper\", cite = \"x\" }\n"),
      HasSubstr("value must be a number"));
  EXPECT_THAT(
      error_of("[memory]\nbandwidth = { value = 1, unit = \"GB/s\", source = \"paper\", cite = \"x\" }\n"),
      HasSubstr("lacks the required field identity.name"));
  EXPECT_THAT(error_of("inherits = \"h200\"\n[sm]\ngroups = { value = \"16, 18\", unit = \"text\", source = \"paper\", cite = \"x\" }\n"),
              HasSubstr("counts with spaces between"));
  EXPECT_THAT(error_of("colour = 3\n"), HasSubstr(":1: unknown key 'colour'"));
  EXPECT_THAT(error_of("inherits = \"h300\"\n"), HasSubstr("unknown GPU 'h300'; known: a100, a100-40"));
  EXPECT_THAT(error_of("[memory\n"), HasSubstr(":1: "));
  EXPECT_THROW(load_profile("sm_90"), ProfileError);
  EXPECT_THROW(load_profile("/no/such.toml"), ProfileError);
}

TEST(Profile, AbsentOptionalFieldIsNamed) {
  Profile t4 = load_profile("t4");
  EXPECT_FALSE(t4.has(FieldId::tensor_fp8));
  try {
    t4.tensor_fp8();
    FAIL();
  } catch (const MissingField& error) {
    EXPECT_THAT(error.what(), HasSubstr("profile t4 has no tensor.fp8 (dense fp8, peak"));
  }
}

TEST(Profile, DirectoryOverridesBuiltIn) {
  auto dir = std::filesystem::temp_directory_path() / ("orrery-gpus-" + std::to_string(getpid()));
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "mine.toml") << "inherits = \"h200\"\n[sm]\ncount = { value = 7, unit = \"count\", "
                                      "source = \"assumed\", cite = \"test\" }\n";
  setenv("ORRERY_GPUS", dir.c_str(), 1);
  EXPECT_EQ(load_profile("mine").sm_count(), 7);
  EXPECT_EQ(load_profile("mine").l2_size(), load_profile("h200").l2_size());
  EXPECT_THAT(list_profiles(), Contains("mine"));
  unsetenv("ORRERY_GPUS");
  std::filesystem::remove_all(dir);
}

// What two H200s and an H100 ran at once (calib/dissect, clusters.seen).
TEST(Profile, ClustersAtOnceAreThoseOfTheCard) {
  const std::uint64_t seen[] = {132, 66, 39, 30, 22, 17, 15, 15, 9, 7, 7, 7, 7, 7, 7, 7};
  for (const char* name : {"h200", "h100"})
    for (std::uint64_t size = 1; size <= 16; size++) EXPECT_EQ(clusters_at_once(load_profile(name), size), seen[size - 1]) << name << ", " << size;
}

// 132 SMs in eight GPCs are six of 16 and two of 18.
TEST(Profile, ClustersLieWithinAGpc) {
  Profile gpu = load_profile("h100-pcie");  // 114 SMs, which no card's groups are known for: one GPC of 18 and six of 16
  const std::uint64_t at_once[] = {114, 57, 6 + 6 * 5, 4 + 6 * 4, 3 + 6 * 3, 3 + 6 * 2, 2 + 6 * 2, 2 + 6 * 2};
  for (std::uint64_t size = 1; size <= 8; size++) EXPECT_EQ(clusters_at_once(gpu, size), at_once[size - 1]) << size;
  EXPECT_EQ(clusters_at_once(gpu, 16), 7u);
  EXPECT_EQ(clusters_at_once(gpu, 19), 0u) << "no GPC has so many SMs";
  EXPECT_EQ(clusters_at_once(gpu, 2, 2), 114u);
  gpu.set(FieldId::sm_count, 133, "what if");
  EXPECT_EQ(clusters_at_once(gpu, 1), 133u);
  gpu.set(FieldId::gpc_count, 0, "what if");
  EXPECT_EQ(clusters_at_once(gpu, 7), 18u) << "as one GPC of 66 pairs and an SM";
}

}  // namespace
}  // namespace orrery
