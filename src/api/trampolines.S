// The exported names of one library: each jumps to the code in its slot, or, when the slot is empty, to the stub that
// refuses with the row's number. ORRERY_LIBRARY chooses the library: 12, 13 (libcudart) or 0 (libcuda).
#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

#if ORRERY_LIBRARY == 0
#define SLOTS orrery_slots_driver
#define REFUSE orrery_refuse_driver
#elif ORRERY_LIBRARY == 12
#define SLOTS orrery_slots_12
#define REFUSE orrery_refuse_12
#else
#define SLOTS orrery_slots_13
#define REFUSE orrery_refuse_13
#endif

    .text
    .set row, 0
#if defined(__x86_64__)
    .macro exported name
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    movq SLOTS@GOTPCREL(%rip), %r11
    movq 8*row(%r11), %r11
    testq %r11, %r11
    je 1f
    jmp *%r11
1:  movl $row, %edi
    jmp REFUSE@PLT
    .size \name, . - \name
    .set row, row + 1
    .endm
#elif defined(__aarch64__)
    .macro exported name
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    adrp x16, :got:SLOTS
    ldr x16, [x16, :got_lo12:SLOTS]
    ldr x16, [x16, #8*row]
    cbz x16, 1f
    br x16
1:  mov w0, #row
    b REFUSE
    .size \name, . - \name
    .set row, row + 1
    .endm
#else
#error "add a trampoline for this architecture"
#endif

#if ORRERY_LIBRARY == 0
#define DRIVER(name, since, reason) exported name
#include "api/driver.def"
#else
#define RUNTIME(name, reason) exported name
#if ORRERY_LIBRARY == 12
#define RUNTIME_12(name, function, reason) exported name
#define RUNTIME_13(name, function, reason)
#else
#define RUNTIME_12(name, function, reason)
#define RUNTIME_13(name, function, reason) exported name
#endif
#include "api/runtime.def"
#endif
    .section .note.GNU-stack, "", %progbits
