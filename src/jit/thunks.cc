// jit/thunks.cc: see thunks.h.
#include "jit/thunks.h"

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string_view>

#include "exec/native.h"
#include "jit/settle.h"

namespace orrery::jit {

extern "C" {

uint32_t orrery_jit_execute(exec::WarpContext* w, uint32_t inst, uint32_t mask) { return exec::runtime_calls().execute(w, inst, mask); }
uint32_t orrery_jit_should_stop(exec::WarpContext* w) { return exec::runtime_calls().should_stop(w); }
uint32_t orrery_jit_settle(exec::WarpContext* w, const SettleEntry* rows, const int64_t* patterns, uint32_t n) { return settle_registers(*w, rows, patterns, n); }

// Declared so that the compiler keeps the labels that the assembly below defines.
void orrery_thunk512_execute();
void orrery_thunk512_should_stop();
void orrery_thunk512_settle();
void orrery_thunk256_execute();
void orrery_thunk256_should_stop();
void orrery_thunk256_settle();
}

// Frame below rbp: the volatile general registers, then the vector registers at a 64-byte boundary. The result stays
// in eax; the argument registers reach the callee unchanged.
#define SAVE_GENERAL \
  "push %rbp\n mov %rsp, %rbp\n push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n push %r8\n push %r9\n push %r10\n push %r11\n"
#define RESTORE_GENERAL "lea -72(%rbp), %rsp\n pop %r11\n pop %r10\n pop %r9\n pop %r8\n pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n"
#define RETURN_VALUE " add $8, %rsp\n pop %rbp\n ret\n"  // the result is in eax

#define THUNK512(name, RETURN)                                                                                       \
  asm(".text\n .p2align 4\n .globl orrery_thunk512_" #name "\n .hidden orrery_thunk512_" #name               \
      "\n orrery_thunk512_" #name ":\n" SAVE_GENERAL                                                          \
      " sub $2176, %rsp\n and $-64, %rsp\n"                                                                   \
      " .set i, 0\n .rept 32\n .set at, i * 64\n orrery_save_zmm %i\n .set i, i + 1\n .endr\n"               \
      " kmovq %k1, 2048(%rsp)\n kmovq %k2, 2056(%rsp)\n kmovq %k3, 2064(%rsp)\n kmovq %k4, 2072(%rsp)\n"      \
      " kmovq %k5, 2080(%rsp)\n kmovq %k6, 2088(%rsp)\n kmovq %k7, 2096(%rsp)\n kmovq %k0, 2104(%rsp)\n"      \
      " vzeroupper\n cld\n call orrery_jit_" #name "\n"                                                        \
      " .set i, 0\n .rept 32\n orrery_load_zmm %i\n .set i, i + 1\n .endr\n"                                  \
      " kmovq 2048(%rsp), %k1\n kmovq 2056(%rsp), %k2\n kmovq 2064(%rsp), %k3\n kmovq 2072(%rsp), %k4\n"      \
      " kmovq 2080(%rsp), %k5\n kmovq 2088(%rsp), %k6\n kmovq 2096(%rsp), %k7\n kmovq 2104(%rsp), %k0\n"      \
      RESTORE_GENERAL RETURN)

#define THUNK256(name, RETURN)                                                                                       \
  asm(".text\n .p2align 4\n .globl orrery_thunk256_" #name "\n .hidden orrery_thunk256_" #name               \
      "\n orrery_thunk256_" #name ":\n" SAVE_GENERAL                                                          \
      " sub $512, %rsp\n and $-64, %rsp\n"                                                                    \
      " .set i, 0\n .rept 16\n orrery_save_ymm %i\n .set i, i + 1\n .endr\n"                                  \
      " vzeroupper\n cld\n call orrery_jit_" #name "\n"                                                        \
      " .set i, 0\n .rept 16\n orrery_load_ymm %i\n .set i, i + 1\n .endr\n"                                  \
      RESTORE_GENERAL RETURN)

asm(".altmacro\n"
    ".macro orrery_save_zmm n\n vmovups %zmm\\n, \\n * 64(%rsp)\n .endm\n"
    ".macro orrery_load_zmm n\n vmovups \\n * 64(%rsp), %zmm\\n\n .endm\n"
    ".macro orrery_save_ymm n\n vmovups %ymm\\n, \\n * 32(%rsp)\n .endm\n"
    ".macro orrery_load_ymm n\n vmovups \\n * 32(%rsp), %ymm\\n\n .endm\n");
THUNK512(execute, RETURN_VALUE);
THUNK512(should_stop, RETURN_VALUE);
THUNK512(settle, RETURN_VALUE);
THUNK256(execute, RETURN_VALUE);
THUNK256(should_stop, RETURN_VALUE);
THUNK256(settle, RETURN_VALUE);
asm(".noaltmacro\n");

void* thunk_named(const char* name) {
  static const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  static const struct { std::string_view name; void (*narrow)(); void (*wide)(); } kThunks[] = {
      {"orrery_thunk_execute", orrery_thunk256_execute, orrery_thunk512_execute},
      {"orrery_thunk_should_stop", orrery_thunk256_should_stop, orrery_thunk512_should_stop},
      {"orrery_thunk_settle", orrery_thunk256_settle, orrery_thunk512_settle},
  };
  for (const auto& t : kThunks)
    if (t.name == name) return reinterpret_cast<void*>(wide ? t.wide : t.narrow);
  return nullptr;
}

}  // namespace orrery::jit
