// jit/linker.cc: see linker.h. One ORC session for the process; every kernel is a dylib of its own.
#include "jit/linker.h"

#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/Orc/Core.h>
#include <llvm/ExecutionEngine/Orc/ExecutorProcessControl.h>
#include <llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h>

#include <llvm/Support/MemoryBuffer.h>

#include <atomic>
#include <cstring>

#include "exec/observed.h"
#include "jit/emitter.h"
#include "jit/thunks.h"

namespace orrery::jit {

namespace orc = llvm::orc;

namespace {

struct Session {
  std::unique_ptr<orc::ExecutionSession> session;
  std::unique_ptr<orc::ObjectLinkingLayer> layer;
  std::atomic<uint64_t> count{0};

  Session() {
    auto control = orc::SelfExecutorProcessControl::Create();
    if (!control) throw std::runtime_error(llvm::toString(control.takeError()));
    session = std::make_unique<orc::ExecutionSession>(std::move(*control));
    session->setErrorReporter([](llvm::Error e) { llvm::consumeError(std::move(e)); });
    layer = std::make_unique<orc::ObjectLinkingLayer>(*session, session->getExecutorProcessControl().getMemMgr());
    layer->setOverrideObjectFlagsWithResponsibilityFlags(true);
    layer->setAutoClaimResponsibilityForObjectSymbols(true);
  }
  /// Kept for the life of the process: code may be running on other threads when it exits.
  static Session& get() {
    static Session* s = new Session;
    return *s;
  }
};

void add(orc::SymbolMap& map, orc::ExecutionSession& s, const std::string& name, const void* at) {
  map[s.intern(name)] = {orc::ExecutorAddr::fromPtr(at), llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
}

}  // namespace

std::shared_ptr<LoadedCode> link_object(const std::vector<char>& object, uint32_t n_regions,
                                        const std::map<uint32_t, Meaning>& meanings, const void* site_ranges, std::string& error) {
  Session& s = Session::get();
  auto code = std::make_shared<LoadedCode>();
  code->object_bytes = object.size();
  orc::JITDylib& dylib = s.session->createBareJITDylib("kernel" + std::to_string(s.count++));
  code->memory = std::shared_ptr<void>(nullptr, [&s, &dylib](void*) { llvm::consumeError(s.session->removeJITDylib(dylib)); });
  orc::SymbolMap symbols;
  for (const char* name : {Symbols::execute, Symbols::should_stop, Symbols::settle})
    add(symbols, *s.session, name, thunk_named(name));
  add(symbols, *s.session, "memcpy", reinterpret_cast<const void*>(&std::memcpy));  // LLVM's own choice for large copies
  add(symbols, *s.session, "memset", reinterpret_cast<const void*>(&std::memset));
  const exec::QuickAccess& quick = exec::quick_access();
  if (quick.run) {
    add(symbols, *s.session, Symbols::quick_run, reinterpret_cast<const void*>(quick.run));
    add(symbols, *s.session, Symbols::quick_same, reinterpret_cast<const void*>(quick.same));
    add(symbols, *s.session, Symbols::quick_block, reinterpret_cast<const void*>(quick.block));
    add(symbols, *s.session, Symbols::quick_atomic, reinterpret_cast<const void*>(quick.atomic));
    add(symbols, *s.session, Symbols::quick_any, reinterpret_cast<const void*>(quick.any));
  }
  if (exec::local_marks()) add(symbols, *s.session, Symbols::local_marks, reinterpret_cast<const void*>(exec::local_marks()));
  if (site_ranges) add(symbols, *s.session, Symbols::site_ranges, site_ranges);
  for (const auto& [inst, meaning] : meanings) {
    code->forms.push_back(std::make_unique<isa::Form>(meaning.form));
    add(symbols, *s.session, Symbols::form(inst), code->forms.back().get());
    add(symbols, *s.session, Symbols::meaning(inst), reinterpret_cast<const void*>(meaning.fn));
  }
  auto fail = [&](llvm::Error e) {
    error = llvm::toString(std::move(e));
    return nullptr;
  };
  if (auto e = dylib.define(orc::absoluteSymbols(std::move(symbols)))) return fail(std::move(e));
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(object.data(), object.size()), "kernel");
  if (auto e = s.layer->add(dylib, std::move(buffer))) return fail(std::move(e));
  for (uint32_t r = 0; r < n_regions; r++) {
    auto found = s.session->lookup({&dylib}, s.session->intern(Symbols::region(r)));
    if (!found) return fail(found.takeError());
    code->entries.push_back(found->getAddress().toPtr<exec::RegionFn>());
  }
  return code;
}

}  // namespace orrery::jit
