// tools/cc_command.cc: `orrery cc`, CUDA C++ compiled by clang with Orrery's own headers.
//
// A CUDA source is compiled twice: for the device to PTX, which is wrapped in a fat binary, and for the host to an
// object that carries the fat binary and registers it. Relocatable device code (-rdc=true) follows nvcc's protocol: each
// object calls __cudaRegisterLinkedBinary_<its id>, and the link step adds a small object that defines those
// functions, collects the fat binaries and registers them as one program whose PTX the runtime links.
// No NVIDIA program, header or library is read. Decision record: docs/decisions/cc-clang.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "tools/cc_device_code.h"
#include "tools/cc_options.h"
#include "tools/cc_process.h"
#include "tools/cc_source_view.h"
#include "tools/command.h"

namespace orrery::tools {

namespace fs = std::filesystem;

namespace {

using Words = std::vector<std::string>;

// The exit status of a compiler that failed, after it has said why itself.
struct StepFailed {
  int status;
};

std::string find_clang() {
  if (const char* named = std::getenv("ORRERY_CLANG")) {
    if (!find_program(named).empty()) return named;
    throw std::runtime_error(fmt::format("ORRERY_CLANG names '{}', which is not there", named));
  }
  for (const char* name : {"clang++-19", "clang++-20", "clang++-21", "clang++-22"})
    if (!find_program(name).empty()) return name;
  throw std::runtime_error(
      "clang 19 is needed to compile CUDA C++ and was not found. On Debian: apt-get install clang-19\n"
      "(or set ORRERY_CLANG to a clang++ of version 19 or later)");
}

std::string find_headers() {
  Words places;
  if (const char* named = std::getenv("ORRERY_CC_INCLUDE")) places.push_back(named);
  places.push_back(executable_folder() + "/../include/orrery-cc");
#ifdef ORRERY_SOURCE_DIR
  places.push_back(ORRERY_SOURCE_DIR "/cc/include");
#endif
  for (const std::string& p : places)
    if (fs::exists(p + "/orrery_cc.h")) return fs::canonical(p).string();
  throw std::runtime_error("Orrery's CUDA headers were not found (looked in " + places.back() + ")");
}

std::string find_runtime() {
  Words places;
  if (const char* named = std::getenv("ORRERY_LIB")) places.push_back(named);
  places.push_back(executable_folder() + "/../lib");
  for (const std::string& p : places)
    for (const char* name : {"libcudart.so.13", "libcudart.so.12", "libcudart.so"})
      if (fs::exists(p + "/" + name)) return fs::weakly_canonical(p + "/" + name).string();
  throw std::runtime_error("Orrery's libcudart was not found in " + places.back() + " (build it: scripts/build)");
}

uint64_t hash_of(const std::string& text) {  // FNV-1a
  uint64_t h = 0xcbf29ce484222325ull;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3ull;
  return h;
}

class Compilation {
 public:
  explicit Compilation(const CcOptions& options) : o_(options), clang_(find_clang()), headers_(find_headers()) {
    fs::create_directory(scratch_.path() + "/no-toolkit");
  }

  void run() {
    switch (o_.output) {
      case CcOutput::kPtx: return each_source(".ptx", [&](auto& in, auto& out) { device_pass(in, out); });
      case CcOutput::kFatbin: return each_source(".fatbin", [&](auto& in, auto& out) { fatbin(in, out); });
      case CcOutput::kPreprocessed: return preprocess();
      case CcOutput::kObject: return each_source(".o", [&](auto& in, auto& out) { object(in, out); });
      case CcOutput::kLink: return link();
    }
  }

 private:
  void step(const Words& words, std::string* output = nullptr) {
    if (o_.verbose) fmt::print(stderr, "{}\n", fmt::join(words, " "));
    if (o_.dry_run) return;
    int status = run_program(words, output);
    if (status == 127) throw std::runtime_error("cannot run " + words[0]);
    if (status != 0) throw StepFailed{status};
  }

  void each_source(const char* suffix, const std::function<void(const std::string&, const std::string&)>& f) {
    if (o_.sources.empty()) throw std::runtime_error("no source file");
    if (!o_.out.empty() && o_.sources.size() > 1) throw std::runtime_error("-o with several sources and no link step");
    for (const std::string& s : o_.sources) f(s, o_.out.empty() ? fs::path(s).stem().string() + suffix : o_.out);
  }

  bool is_cuda(const std::string& source) const {
    if (!o_.language.empty()) return o_.language == "cu" || o_.language == "cuda";
    return fs::path(source).extension() == ".cu";
  }

  // A file between two steps: in the scratch folder, or beside the output with --keep.
  std::string intermediate(const std::string& source, const std::string& suffix) {
    std::string stem = fs::path(source).stem().string();
    if (o_.keep) return stem + suffix;
    return fmt::format("{}/{}-{:08x}{}", scratch_.path(), stem, (uint32_t)hash_of(source), suffix);
  }

  Words cuda_words(const std::string& source) const {
    Words w = {clang_, "-x", "cuda", "-nocudainc", "-nocudalib", "--cuda-path=" + scratch_.path() + "/no-toolkit",
               "--cuda-gpu-arch=" + o_.arch, "-Xclang", "-target-sdk-version=12.5", "-isystem", headers_,
               "-include", "orrery_cc.h", "-DORRERY_CC=1", "-D__CUDACC__=1", "-std=c++17", "-O3",
               "-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument", "-Wno-pass-failed",
               // what nvcc accepts and libraries of device code rely on
               "-Wno-missing-template-arg-list-after-template-kw", "-Xclang", "-fcuda-allow-variadic-functions"};
    if (!overlay_.empty()) w.insert(w.end(), {"-ivfsoverlay", overlay_});
    if (o_.relocatable)
      w.insert(w.end(), {"-fgpu-rdc", "-D__CUDACC_RDC__=1", "-fuse-cuid=none", "-Xclang",
                          fmt::format("-cuid={:016x}", identity(source))});
    w.insert(w.end(), o_.common.begin(), o_.common.end());
    return w;
  }

  // The same in both passes and in every build of the same file: it becomes part of the names of static variables.
  uint64_t identity(const std::string& source) const {
    std::error_code ignored;
    return hash_of(fs::weakly_canonical(source, ignored).string() + o_.arch);
  }

  // Gives clang the respelled text of files that it would refuse, under their own names.
  SourceView prepare(const std::string& source) {
    Words folders;
    for (size_t i = 0; i < o_.common.size(); i++) {
      const std::string& word = o_.common[i];
      if (word.rfind("-I", 0) == 0) folders.push_back(word.substr(2));
      if (word == "-isystem" && i + 1 < o_.common.size()) folders.push_back(o_.common[i + 1]);
    }
    SourceView view = view_source(source, folders);
    overlay_.clear();
    if (view.rewritten.empty()) return view;
    nlohmann::json roots = nlohmann::json::array();
    for (const RewrittenFile& f : view.rewritten) {
      std::string copy = fmt::format("{}/respelled-{}", scratch_.path(), roots.size());
      write_file(copy, f.text);
      roots.push_back({{"name", f.path}, {"type", "file"}, {"external-contents", copy}});
    }
    overlay_ = scratch_.path() + "/overlay.yaml";
    write_file(overlay_, nlohmann::json({{"version", 0}, {"use-external-names", false}, {"roots", roots}}).dump());
    return view;
  }

  void device_pass(const std::string& source, const std::string& out) {
    SourceView view = prepare(source);
    Words w = cuda_words(source);
    // Contraction as nvcc does it (across statements), but where a header turns it off it stays off.
    w.insert(w.end(), {"--cuda-device-only", "--cuda-feature=+ptx85", "-ffp-contract=fast-honor-pragmas",
                       "-gline-directives-only", "-fno-builtin-malloc", "-fno-builtin-free", "-S", source, "-o", out});
    w.insert(w.end(), o_.device.begin(), o_.device.end());
    step(w);
    if (o_.dry_run) return;
    std::string ptx = tidy_ptx(read_file(out));
    if (view.has_cluster_dims) {
      Words notes = cuda_words(source);
      notes.insert(notes.end(), {"--cuda-device-only", "--cuda-feature=+ptx85", "-S", "-emit-llvm", "-Xclang",
                                 "-disable-llvm-passes", source, "-o", scratch_.path() + "/notes.ll"});
      step(notes);
      ptx = add_cluster_dims(ptx, read_file(scratch_.path() + "/notes.ll"));
    }
    write_file(out, ptx);
  }

  void fatbin(const std::string& source, const std::string& out) {
    std::string ptx = intermediate(source, ".ptx");
    device_pass(source, ptx);
    if (!o_.dry_run) write_file(out, make_fatbin(read_file(ptx), o_.arch));
  }

  void object(const std::string& source, const std::string& out) {
    if (!is_cuda(source)) return host_object(source, out);
    std::string bundle = intermediate(source, ".fatbin");
    fatbin(source, bundle);
    Words w = cuda_words(source);
    w.insert(w.end(), o_.host.begin(), o_.host.end());
    w.insert(w.end(), {"--cuda-host-only", "-Xclang", "-fcuda-include-gpubinary", "-Xclang", bundle, "-c", source, "-o", out});
    step(w);
  }

  void host_object(const std::string& source, const std::string& out) {
    Words w = {clang_, "-isystem", headers_, "-O3"};
    std::string suffix = fs::path(source).extension().string();
    for (const std::string& word : o_.common)
      if (suffix != ".c" || word.rfind("-std=c++", 0) != 0) w.push_back(word);
    w.insert(w.end(), o_.host.begin(), o_.host.end());
    if (suffix == ".c") w.insert(w.end(), {"-x", "c"});
    w.insert(w.end(), {"-c", source, "-o", out});
    step(w);
  }

  void preprocess() {
    for (const std::string& source : o_.sources) {
      prepare(source);
      Words w = cuda_words(source);
      w.insert(w.end(), {"--cuda-host-only", "-E", source});
      if (!o_.out.empty()) w.insert(w.end(), {"-o", o_.out});
      step(w);
    }
  }

  void link() {
    if (o_.link_words.empty()) throw std::runtime_error("no input file (orrery cc --help explains)");
    Words words;
    for (const std::string& word : o_.link_words) {
      if (word[0] != '@') {
        words.push_back(word);
        continue;
      }
      const std::string& source = o_.sources[std::stoul(word.substr(1))];
      words.push_back(intermediate(source, ".o"));
      object(source, words.back());
    }
    std::string runtime = find_runtime(), folder = fs::path(runtime).parent_path().string();
    Words w = {clang_};
    if (o_.shared) w.push_back("-shared");
    w.insert(w.end(), {"-o", o_.out.empty() ? "a.out" : o_.out, "-L" + folder});
    w.insert(w.end(), words.begin(), words.end());
    std::string registration = registration_object(words);
    if (!registration.empty()) w.push_back(registration);
    for (std::string& word : w)
      if (word == "-lcuda") word = folder + "/libcuda.so.1";
    w.insert(w.end(), {runtime, "-Wl,-rpath," + folder, "-lm", "-ldl", "-lpthread"});
    step(w);
  }

  // The object that registers relocatable device code, or empty when no input has any.
  std::string registration_object(const Words& words) {
    std::set<std::string> modules;
    for (const std::string& word : words) {
      if (word[0] == '-' || o_.dry_run || !fs::exists(word)) continue;
      std::string names, suffix = fs::path(word).extension().string();
      if (suffix != ".o" && suffix != ".a" && suffix != ".obj") continue;
      step({find_program("llvm-nm-19").empty() ? "nm" : "llvm-nm-19", "-u", word}, &names);
      std::istringstream lines(names);
      for (std::string name; lines >> name;)
        if (name.rfind("__cudaRegisterLinkedBinary_", 0) == 0) modules.insert(name);
    }
    if (modules.empty()) return "";
    std::string source = scratch_.path() + "/register.c", object = scratch_.path() + "/register.o";
    write_file(source, registration_source(modules));
    step({clang_, "-x", "c", "-O2", "-fPIC", "-c", source, "-o", object});
    return object;
  }

  static std::string registration_source(const std::set<std::string>& modules) {
    std::string s =
        "struct Wrapper { unsigned magic, version; const void* data; const void** extra; };\n"
        "typedef void (*Register)(void**);\n"
        "void** __cudaRegisterFatBinary(void*);\n"
        "void __cudaRegisterFatBinaryEnd(void**);\n"
        "void __cudaUnregisterFatBinary(void**);\n"
        // An empty fat binary stands where nvcc puts the linked machine code.
        "static const struct { unsigned magic; unsigned short version, header; unsigned long long size; } empty =\n"
        "    {0xBA55ED50u, 1, 16, 0};\n";
    s += fmt::format("enum {{ kModules = {} }};\n", modules.size());
    s += "static const void* images[kModules + 1];\n"
         "static Register registers[kModules];\n"
         "static volatile int count;\n"  // volatile: else the compiler runs start() itself, before any module was added
         "static struct Wrapper program = {0x466243b1u, 2, &empty, images};\n"
         "static void** handle;\n"
         "static void add(Register f, const struct Wrapper* w) {\n"
         "  images[count] = w->data;\n  registers[count++] = f;\n}\n";
    for (const std::string& m : modules)
      s += fmt::format("void {}(Register f, const struct Wrapper* w, const char* id, void (*c)(void*)) {{ add(f, w); }}\n", m);
    // The linker runs constructors in the order of the objects, and this one is the last.
    s += "static void stop(void) { __cudaUnregisterFatBinary(handle); }\n"
         "int atexit(void (*)(void));\n"
         "__attribute__((constructor)) static void start(void) {\n"
         "  if (count == 0) return;\n"
         "  handle = __cudaRegisterFatBinary(&program);\n"
         "  for (int i = 0; i < count; i++) registers[i](handle);\n"
         "  __cudaRegisterFatBinaryEnd(handle);\n"
         "  atexit(stop);\n}\n";
    return s;
  }

  CcOptions o_;
  ScratchFolder scratch_;
  std::string clang_, headers_, overlay_;
};

int cc(const std::vector<std::string>& args) {
  try {
    CcOptions options = parse_cc_options(args);
    if (options.help || args.empty()) {
      fmt::print("{}", kCcHelp);
      return args.empty() ? 2 : 0;
    }
    if (options.version) {
      fmt::print("orrery cc: CUDA C++ through {}, headers of CUDA 13.0\n", find_clang());
      return 0;
    }
    Compilation(options).run();
    return 0;
  } catch (const StepFailed&) {
    return 3;
  } catch (const std::runtime_error& e) {
    fmt::print(stderr, "orrery cc: {}\n", e.what());
    return 2;
  }
}

ORRERY_COMMAND(cc, "compile CUDA C++ without NVIDIA's toolkit", cc);

}  // namespace

}  // namespace orrery::tools
