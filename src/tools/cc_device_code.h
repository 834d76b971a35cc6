// tools/cc_device_code.h: what happens to clang's PTX before it goes into an object file.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

/// PTX with clang's loose ends tied: references to a file's static variables use the name under which clang defines
/// them for relocatable code, and its bookkeeping arrays are gone.
std::string tidy_ptx(const std::string& ptx);

/// PTX with the cluster shapes that `llvm_ir` (of the same source) notes for its kernels as annotations
/// "orrery.cluster_dims": `.reqnctapercluster` on their entries.
std::string add_cluster_dims(const std::string& ptx, const std::string& llvm_ir);

/// A fat binary with one plain PTX entry for `arch` ("sm_90a"), as bytes.
std::string make_fatbin(const std::string& ptx, const std::string& arch);

}  // namespace orrery::tools
