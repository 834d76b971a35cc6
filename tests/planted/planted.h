// planted.h: what the programs with one planted mistake share.
//
// A program holds one mistake and its repair:
//
//   // planted: KIND                 the kind of check that must find it (memcheck, racecheck, ...)
//   // finding: NAME [| NAME...]     the finding that is expected
//   // needs: OPTION...              options of `orrery check` without which it is not looked for
//   ... REPAIR(__syncthreads();) ... code that only the repaired program has
//   ... BUG(n + 1) ...               code that only the program with the mistake has
//   ... // HERE                      a line that the finding must name (any of them)
//
// A file is a program of its own (nvcc FILE, with -DFIXED the repaired one). scripts/planted compiles many of them,
// both ways, into one program that takes the name of the case as its argument; that is why this part of the header is
// read again for each.
#include "planted_support.h"

#undef BUG
#undef REPAIR
#undef PLANTED_NAME
#ifdef FIXED
#define BUG(...)
#define REPAIR(...) __VA_ARGS__
#define PLANTED_NAME(name) #name ".fixed"
#else
#define BUG(...) __VA_ARGS__
#define REPAIR(...)
#define PLANTED_NAME(name) #name
#endif
