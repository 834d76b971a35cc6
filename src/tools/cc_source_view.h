// tools/cc_source_view.h: the few spellings of nvcc's C++ that clang does not take, found and respelled.
#pragma once
#include <string>
#include <vector>

namespace orrery::tools {

struct RewrittenFile {
  std::string path;  // as the compiler will open it
  std::string text;
};

struct SourceView {
  std::vector<RewrittenFile> rewritten;  // files that clang must see in another spelling
  bool has_cluster_dims = false;         // __cluster_dims__ occurs somewhere
};

/// Looks through `source` and the files it includes from its own folder or from `folders`; a file that cannot be read
/// is left to the compiler to complain about.
SourceView view_source(const std::string& source, const std::vector<std::string>& folders);

/// `text` with every "__shared__ alignas(N)" turned into "alignas(N) __shared__" (and so for the other memory
/// qualifiers, with the storage class before them); of the same length, line by line where no line break is inside.
std::string respell_alignment(const std::string& text);

}  // namespace orrery::tools
