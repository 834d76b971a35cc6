// jit/target.cc: see target.h.
#include "jit/target.h"

#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/ADCE.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/GVN.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>

#include <cstdlib>
#include <mutex>
#include <string_view>

#include "base/error.h"

namespace orrery::jit {

const HostTraits& HostTraits::get() {
  // Never destroyed: a thread may still compile while the process ends.
  static const HostTraits& traits = *new HostTraits([] {
    HostTraits t;
    t.cpu = llvm::sys::getHostCPUName().str();
    const llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    const char* wish = std::getenv("ORRERY_JIT_VECTOR");
    const bool narrow = wish && std::string_view(wish) == "256";  // code for machines without AVX-512, to test it here
    auto off = [&](llvm::StringRef name) { return narrow && (name.starts_with("avx512") || name.starts_with("avx10") || name == "evex512"); };
    auto has = [&](const char* name) { auto f = features.find(name); return f != features.end() && f->second && !off(name); };
    t.avx512 = has("avx512f") && has("avx512bw") && has("avx512vl") && has("avx512dq");
    const char* rows = std::getenv("ORRERY_JIT_ROWS");
    t.asks_foreseen = !rows || std::string_view(rows) != "off";
    t.asks_for_rows = rows ? std::string_view(rows) == "ask" : bool(__builtin_cpu_is("intel"));
    const char* stream = std::getenv("ORRERY_JIT_STREAM");
    t.streams = t.avx512 && (stream ? std::string_view(stream) != "off" : bool(__builtin_cpu_is("intel")));
    std::vector<std::string> sorted;
    for (const auto& f : features) sorted.push_back((f.second && !off(f.first()) ? "+" : "-") + f.first().str());
    std::sort(sorted.begin(), sorted.end());
    for (const std::string& f : sorted) t.features += (t.features.empty() ? "" : ",") + f;
    return t;
  }());
  return traits;
}

std::unique_ptr<llvm::TargetMachine> make_target_machine(Tier tier) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    // Scheduling once more after registers are assigned is a fifth of the time of a large kernel, and hosts that execute
    // out of order gain nothing by it.
    auto& known = llvm::cl::getRegisteredOptions();
    if (const auto at = known.find("disable-post-ra"); at != known.end()) static_cast<llvm::cl::opt<bool>*>(at->second)->setValue(true);
  });
  std::string error;
  const std::string triple = llvm::sys::getProcessTriple();
  const llvm::Target* target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) base::fail("no code generator for this machine: {}", error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  const HostTraits& host = HostTraits::get();
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, host.cpu, host.features, options, llvm::Reloc::PIC_, llvm::CodeModel::Small,
      tier == Tier::quick ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Default));
}

namespace {

llvm::FunctionPassManager passes(Tier tier) {
  using namespace llvm;
  FunctionPassManager f;
  f.addPass(SROAPass(SROAOptions::ModifyCFG));
  f.addPass(EarlyCSEPass(true));
  f.addPass(SimplifyCFGPass());
  f.addPass(InstCombinePass());
  if (tier == Tier::full) {
    LoopPassManager loops;
    loops.addPass(LICMPass(LICMOptions()));
    f.addPass(createFunctionToLoopPassAdaptor(std::move(loops), /*UseMemorySSA=*/true));
    f.addPass(GVNPass());
    f.addPass(InstCombinePass());
  }
  f.addPass(SimplifyCFGPass(SimplifyCFGOptions().convertSwitchRangeToICmp(true)));
  f.addPass(ADCEPass());
  return f;
}

}  // namespace

void compile_module(llvm::Module& module, llvm::TargetMachine& machine, Tier tier, llvm::SmallVectorImpl<char>& object) {
  module.setTargetTriple(machine.getTargetTriple().str());
  module.setDataLayout(machine.createDataLayout());
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager pipeline;
  pipeline.addPass(llvm::createModuleToFunctionPassAdaptor(passes(tier)));
  pipeline.run(module, modules);
  llvm::raw_svector_ostream out(object);
  llvm::legacy::PassManager codegen;
  if (machine.addPassesToEmitFile(codegen, out, nullptr, llvm::CodeGenFileType::ObjectFile))
    base::fail("the code generator cannot write object files");
  codegen.run(module);
}

}  // namespace orrery::jit
