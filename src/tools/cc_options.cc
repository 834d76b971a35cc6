// tools/cc_options.cc: reads nvcc's command line.
//
// nvcc spells most options in two ways, -o FILE and --output-file=FILE, and lets a value follow after '=' or as the
// next word; so a word is first split into name and value, its long name replaced by the short one, and then looked
// up. What only nvcc's own tools understand (-Xptxas, -maxrregcount) is accepted and has no effect; what would change
// the meaning of the program and cannot be done (cubin output) is an error.
// Source: NVIDIA CUDA Compiler Driver documentation, "NVCC Command Options".
#include "tools/cc_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>

namespace orrery::tools {

const char* const kCcHelp =
    "usage: orrery cc [options] FILE...\n\n"
    "Compiles CUDA C++ with clang and Orrery's own headers; NVIDIA's toolkit is not needed. Takes nvcc's options:\n\n"
    "  -o FILE  -c  -dc  -ptx  -fatbin  -E  -shared         what to make\n"
    "  -I DIR  -D NAME  -std=c++17  -O2  -g  -G  -lineinfo   how to compile\n"
    "  -arch=sm_90a  -gencode arch=...,code=...             the newest of those named is used (default sm_90a)\n"
    "  -rdc=true                                            link device code of several files\n"
    "  -use_fast_math  -fmad=false  -ftz=true               arithmetic of device code\n"
    "  -Xcompiler A,B  -Xlinker A  -L DIR  -l LIB           for the host compiler and the linker\n"
    "  -default-stream per-thread                           the stream that launches use\n"
    "  -v  --dryrun  --keep                                 show the commands, run nothing, keep their files\n\n"
    "Run the result with `orrery run -- ./program`. ORRERY_CLANG names another clang++.\n";

namespace {

const std::map<std::string, std::string>& long_names() {
  static const std::map<std::string, std::string> names = {
      {"--output-file", "-o"}, {"--compile", "-c"}, {"--device-c", "-dc"}, {"--ptx", "-ptx"}, {"--fatbin", "-fatbin"},
      {"--preprocess", "-E"}, {"--shared", "-shared"}, {"--include-path", "-I"}, {"--define-macro", "-D"},
      {"--undefine-macro", "-U"}, {"--library", "-l"}, {"--library-path", "-L"}, {"--optimize", "-O"},
      {"--debug", "-g"}, {"--device-debug", "-G"}, {"--generate-line-info", "-lineinfo"}, {"--std", "-std"},
      {"--gpu-architecture", "-arch"}, {"--gpu-code", "-code"}, {"--generate-code", "-gencode"},
      {"--relocatable-device-code", "-rdc"}, {"--use_fast_math", "-use_fast_math"}, {"--fmad", "-fmad"},
      {"--ftz", "-ftz"}, {"--prec-div", "-prec-div"}, {"--prec-sqrt", "-prec-sqrt"}, {"--cudart", "-cudart"},
      {"--compiler-options", "-Xcompiler"}, {"--linker-options", "-Xlinker"}, {"--ptxas-options", "-Xptxas"},
      {"--nvlink-options", "-Xnvlink"}, {"--default-stream", "-default-stream"}, {"--verbose", "-v"},
      {"--dryrun", "-dryrun"}, {"--keep", "-keep"}, {"--help", "-h"}, {"--version", "-V"}, {"--x", "-x"},
      {"--machine", "-m"}, {"--compiler-bindir", "-ccbin"}, {"--maxrregcount", "-maxrregcount"},
      {"--include", "-include"}, {"--pre-include", "-include"}, {"--system-include", "-isystem"},
      {"--disable-warnings", "-w"}, {"--threads", "-t"}, {"--extended-lambda", "-extended-lambda"},
      {"--expt-extended-lambda", "-extended-lambda"}, {"--expt-relaxed-constexpr", "-relaxed-constexpr"},
      {"--forward-unknown-to-host-compiler", "-forward-unknown-to-host-compiler"}, {"--Werror", "-Werror"},
      {"--diag-suppress", "-diag-suppress"}, {"--diag-error", "-diag-error"}, {"--diag-warn", "-diag-warn"},
      {"--resource-usage", "-res-usage"}, {"--source-in-ptx", "-src-in-ptx"}, {"--cubin", "-cubin"},
      {"--device-link", "-dlink"}, {"--restrict", "-restrict"}, {"--gen-opt-lto", "-dlto"}, {"--dlink-time-opt", "-dlto"}};
  return names;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  size_t at = 0;
  while (at <= text.size()) {
    size_t end = std::min(text.find(separator, at), text.size());
    if (end > at) parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// "compute_90a" and "sm_90a" as 902, "sm_90" as 900: a number that orders them.
int arch_rank(const std::string& arch) {
  size_t digits = arch.find('_');
  if (digits == std::string::npos) throw std::runtime_error(fmt::format("'{}' is not a GPU architecture", arch));
  int number = 0;
  size_t i = digits + 1;
  for (; i < arch.size() && arch[i] >= '0' && arch[i] <= '9'; i++) number = number * 10 + (arch[i] - '0');
  return number * 10 + (arch.substr(i) == "a" ? 2 : arch.substr(i) == "f" ? 1 : 0);
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& args) : args_(args) {}

  CcOptions parse() {
    for (next_ = 0; next_ < args_.size();) word(args_[next_++]);
    if (best_rank_ > 0) choose_arch();
    return std::move(o_);
  }

 private:
  // The value of the option `name_`: what stood behind '=' (or directly behind a short name), else the next word.
  std::string value() {
    if (has_value_) return value_;
    if (next_ >= args_.size()) throw std::runtime_error(fmt::format("{} needs a value", name_));
    return args_[next_++];
  }
  bool truth() {
    std::string v = value();
    return v == "true" || v == "1";
  }

  void word(const std::string& word) {
    if (word.empty()) return;
    if (word[0] != '-' || word == "-") return input(word);
    name_ = word;
    has_value_ = false;
    if (joined(word)) return;
    size_t equals = word.find('=');
    if (equals != std::string::npos) {
      name_ = word.substr(0, equals);
      value_ = word.substr(equals + 1);
      has_value_ = true;
    }
    auto alias = long_names().find(name_);
    if (alias != long_names().end()) name_ = alias->second;
    if (!make(name_) && !compile(name_) && !device_arithmetic(name_) && !ignored(name_)) pass_on(word);
  }

  // -Idir, -DNAME=1, -lm, -O2: a value without '=' or space.
  bool joined(const std::string& word) {
    static const std::set<std::string> exceptions = {"-lineinfo"};
    if (word.size() < 3 || exceptions.count(word)) return false;
    std::string key = word.substr(0, 2), rest = word.substr(2);
    if (key == "-I" || key == "-D" || key == "-U" || key == "-O") {
      o_.common.push_back(word);
    } else if (key == "-L" || key == "-l") {
      library(key, rest);
    } else if (word.rfind("-Wl,", 0) == 0) {
      o_.link_words.push_back(word);
    } else if (word.rfind("-std=", 0) == 0) {
      o_.common.push_back(word);
    } else {
      return false;
    }
    return true;
  }

  void library(const std::string& key, const std::string& name) {
    // The runtime is Orrery's own and is always linked; the device runtime has no library.
    static const std::set<std::string> own = {"cudart", "cudart_static", "cudadevrt", "culibos"};
    if (key == "-l" && own.count(name)) return;
    o_.link_words.push_back(key + name);
  }

  bool make(const std::string& name) {
    static const std::map<std::string, CcOutput> outputs = {{"-c", CcOutput::kObject}, {"-dc", CcOutput::kObject},
                                                            {"-ptx", CcOutput::kPtx}, {"-fatbin", CcOutput::kFatbin},
                                                            {"-E", CcOutput::kPreprocessed}};
    auto found = outputs.find(name);
    if (found != outputs.end()) {
      o_.output = found->second;
      if (name == "-dc") o_.relocatable = true;
    } else if (name == "-o") {
      o_.out = value();
    } else if (name == "-shared") {
      o_.shared = true;
      o_.host.push_back("-fPIC");
    } else if (name == "-x") {
      o_.language = value();
    } else if (name == "-rdc") {
      o_.relocatable = truth();
    } else if (name == "-keep") {
      o_.keep = true;
    } else if (name == "-v") {
      o_.verbose = true;
    } else if (name == "-dryrun") {
      o_.dry_run = o_.verbose = true;
    } else if (name == "-h") {
      o_.help = true;
    } else if (name == "-V") {
      o_.version = true;
    } else if (name == "-cubin" || name == "-dlink") {
      throw std::runtime_error(name + ": machine code is not made here; PTX (-ptx) or an executable is");
    } else {
      return false;
    }
    return true;
  }

  bool compile(const std::string& name) {
    static const std::set<std::string> with_value = {"-I", "-D", "-U", "-isystem", "-include"};
    if (with_value.count(name)) {
      std::string v = value();
      if (name[1] == 'i') o_.common.insert(o_.common.end(), {name, v});
      else o_.common.push_back(name + v);
    } else if (name == "-O") {
      o_.common.push_back("-O" + value());
    } else if (name == "-std") {
      o_.common.push_back("-std=" + value());
    } else if (name == "-L" || name == "-l") {
      library(name, value());
    } else if (name == "-arch" || name == "-code") {
      for (const std::string& a : split(value(), ',')) consider_arch(a);
    } else if (name == "-gencode") {
      for (const std::string& part : split(value(), ',')) {
        std::string list = part.substr(part.find('=') + 1);
        list.erase(std::remove_if(list.begin(), list.end(), [](char c) { return c == '[' || c == ']'; }), list.end());
        consider_arch(list);
      }
    } else if (name == "-Xcompiler") {
      for (const std::string& w : split(value(), ',')) {
        o_.host.push_back(w);
        if (w == "-fopenmp" || w == "-pthread") o_.link_words.push_back(w == "-fopenmp" ? "-lgomp" : w);
      }
    } else if (name == "-Xlinker") {
      for (const std::string& w : split(value(), ',')) o_.link_words.push_back("-Wl," + w);
    } else if (name == "-default-stream") {
      if (value() == "per-thread") {
        o_.common.push_back("-DCUDA_API_PER_THREAD_DEFAULT_STREAM=1");
        o_.host.push_back("-fgpu-default-stream=per-thread");
      }
    } else {
      return debug(name);
    }
    return true;
  }

  bool debug(const std::string& name) {
    if (name == "-g") {
      o_.host.push_back("-g");
    } else if (name == "-G") {
      o_.device.push_back("-O1");
      o_.common.push_back("-D__CUDACC_DEBUG__");
      o_.device.push_back("-fno-inline-functions");
    } else if (name == "-w") {
      o_.common.push_back("-w");
    } else if (name == "-pthread") {
      o_.host.push_back(name);
      o_.link_words.push_back(name);
    } else {
      return name == "-lineinfo";  // line information is always there
    }
    return true;
  }

  bool device_arithmetic(const std::string& name) {
    if (name == "-use_fast_math") {
      flush_to_zero();
      imprecise_division();
      imprecise_root();
      o_.common.push_back("-D__USE_FAST_MATH__=1");
    } else if (name == "-fmad") {
      if (!truth()) o_.device.insert(o_.device.end(), {"-ffp-contract=off", "-DORRERY_CC_NO_FMAD"});
    } else if (name == "-ftz") {
      if (truth()) flush_to_zero();
    } else if (name == "-prec-div") {
      if (!truth()) imprecise_division();
    } else if (name == "-prec-sqrt") {
      if (!truth()) imprecise_root();
    } else {
      return false;
    }
    return true;
  }
  void flush_to_zero() { o_.device.insert(o_.device.end(), {"-fgpu-flush-denormals-to-zero", "-D__CUDA_FTZ=1"}); }
  void imprecise_division() { o_.device.insert(o_.device.end(), {"-mllvm", "-nvptx-prec-divf32=1"}); }
  void imprecise_root() { o_.device.insert(o_.device.end(), {"-mllvm", "-nvptx-prec-sqrtf32=0"}); }

  // What has no meaning here, with or without a value.
  bool ignored(const std::string& name) {
    static const std::set<std::string> with_value = {"-Xptxas", "-Xnvlink", "-maxrregcount", "-ccbin", "-cudart",
                                                     "-diag-suppress", "-diag-error", "-diag-warn", "-t", "-Xfatbin",
                                                     "-split-compile", "-compress-mode", "-Werror"};
    static const std::set<std::string> flags = {"-extended-lambda", "-relaxed-constexpr", "-res-usage", "-src-in-ptx",
                                                "-forward-unknown-to-host-compiler", "-m64", "-restrict", "-dlto",
                                                "-Wno-deprecated-gpu-targets", "-compress-all", "-no-compress"};
    if (name == "-m") {
      value();
      return true;
    }
    if (with_value.count(name)) {
      value();
      return true;
    }
    return flags.count(name) != 0;
  }

  void pass_on(const std::string& word) {
    static const std::vector<std::string> host_prefixes = {"-f", "-m", "-W", "-M", "-pedantic"};
    for (const std::string& p : host_prefixes)
      if (word.rfind(p, 0) == 0) {
        o_.host.push_back(word);
        if ((word == "-MF" || word == "-MT" || word == "-MQ") && next_ < args_.size())
          o_.host.push_back(args_[next_++]);
        if (word == "-fopenmp") o_.link_words.push_back("-lgomp");
        return;
      }
    throw std::runtime_error(fmt::format("unknown option '{}' (orrery cc --help lists what is taken)", word));
  }

  void input(const std::string& word) {
    size_t dot = word.rfind('.');
    std::string suffix = dot == std::string::npos ? "" : word.substr(dot + 1);
    static const std::set<std::string> source = {"cu", "cpp", "cc", "cxx", "c", "C", "c++"};
    if (source.count(suffix) || !o_.language.empty()) {
      o_.link_words.push_back("@" + std::to_string(o_.sources.size()));
      o_.sources.push_back(word);
    } else {
      o_.link_words.push_back(word);
    }
  }

  void consider_arch(const std::string& list) {
    for (const std::string& a : split(list, ',')) {
      if (a == "native" || a == "all" || a == "all-major") continue;
      int rank = arch_rank(a);
      if (rank > best_rank_) best_rank_ = rank;
    }
  }
  void choose_arch() {
    if (best_rank_ > 909)
      throw std::runtime_error(fmt::format("sm_{} is newer than clang 19 knows; the newest is sm_90a", best_rank_ / 10));
    o_.arch = fmt::format("sm_{}{}", best_rank_ / 10, best_rank_ % 10 == 2 ? "a" : "");
  }

  const std::vector<std::string>& args_;
  size_t next_ = 0;
  CcOptions o_;
  std::string name_, value_;
  bool has_value_ = false;
  int best_rank_ = 0;
};

}  // namespace

CcOptions parse_cc_options(const std::vector<std::string>& args) { return Parser(args).parse(); }

}  // namespace orrery::tools
