# Writes OUT: a C++ source with the text of every file of FILES.
set(body "// Made by src/profile/embed.cmake from gpus/*.toml.\n#include \"profile/embedded.h\"\n\nnamespace orrery {\n\nconst std::vector<EmbeddedFile>& embedded_profiles() {\n  static const std::vector<EmbeddedFile> files = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} text)
  string(APPEND body "{\"${name}\", R\"toml~(${text})toml~\"},\n")
endforeach()
string(APPEND body "  };\n  return files;\n}\n\n}  // namespace orrery\n")
file(WRITE ${OUT} "${body}")
