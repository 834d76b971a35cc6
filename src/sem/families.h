// sem/families.h: the families of pure instructions, each with the function that knows its forms.
//
// Every find_* returns a null function for a form that it does not know; pure.cc asks the family of the operation.
#pragma once
#include "sem/lanes.h"

namespace orrery::sem {

/// Numbers of operands after flattening; they tell `setp p` from `setp p|q`, and packing moves from each other.
struct Arity {
  int dests = 1, sources = 0;
};

PureFn find_integer(const Form& form, Arity arity);    // add .. mad, div, rem, abs, neg, min, max, dp4a
PureFn find_carry(const Form& form);                   // .cc, addc, subc, madc
PureFn find_bits(const Form& form, Arity arity);       // logic, shifts, bit fields, prmt
PureFn find_compare(const Form& form, Arity arity);    // set, setp, selp, slct, testp
PureFn find_float(const Form& form, Arity arity);      // f32 and f64 arithmetic
PureFn find_half(const Form& form, Arity arity);       // f16 and bf16 arithmetic, plain and packed
PureFn find_convert(const Form& form);                 // cvt
PureFn find_convert_pack(const Form& form);            // cvt.pack
PureFn find_approximate(const Form& form);               // rcp, sqrt, sin, ... .approx
PureFn find_move(const Form& form, Arity arity);       // mov
PureFn find_video(const Form& form);                   // vadd .. vset4

}  // namespace orrery::sem
