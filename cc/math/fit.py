#!/usr/bin/env python3
"""Writes cc/include/orrery/math_polynomials.h: the near-minimax polynomials of the CUDA math functions.

Every entry is (name, type, function, interval, number of coefficients): a Chebyshev fit made with 60 digits
(mpmath.chebyfit), rounded to the working type, evaluated by Horner with fma. The header says the fit's largest
absolute error. Run it again only to change a fit: python3 cc/math/fit.py > cc/include/orrery/math_polynomials.h
"""
import struct
import mpmath as mp

mp.mp.dps = 60


def q(f, z, small):
    """f(z), with the value `small` at the removable singularity z = 0."""
    return f(z) if abs(z) > mp.mpf(10) ** -18 else small


def log1p_tail(f):  # log1p(f) = f + f^2 (-1/2 + f P(f))
    return q(lambda x: (mp.log1p(x) - x + x * x / 2) / x**3, f, mp.mpf(1) / 3)


def sin_tail(z):  # sin x = x + x^3 P(x^2)
    return q(lambda v: (mp.sin(mp.sqrt(v)) / mp.sqrt(v) - 1) / v, z, -mp.mpf(1) / 6)


def cos_tail(z):  # cos x = 1 - x^2/2 + x^4 P(x^2)
    return q(lambda v: (mp.cos(mp.sqrt(v)) - 1 + v / 2) / v**2, z, mp.mpf(1) / 24)


def atan_tail(z):  # atan x = x + x^3 P(x^2)
    return q(lambda v: (mp.atan(mp.sqrt(v)) / mp.sqrt(v) - 1) / v, z, -mp.mpf(1) / 3)


def asin_tail(z):
    return q(lambda v: (mp.asin(mp.sqrt(v)) / mp.sqrt(v) - 1) / v, z, mp.mpf(1) / 6)


def tanh_tail(z):
    return q(lambda v: (mp.tanh(mp.sqrt(v)) / mp.sqrt(v) - 1) / v, z, -mp.mpf(1) / 3)


def sinh_tail(z):
    return q(lambda v: (mp.sinh(mp.sqrt(v)) / mp.sqrt(v) - 1) / v, z, mp.mpf(1) / 6)


def exp_tail(r):  # exp r = 1 + r + r^2 P(r)
    return q(lambda x: (mp.exp(x) - 1 - x) / x**2, r, mp.mpf(1) / 2)


def erf_even(z):  # erf x = x (2/sqrt(pi) + P(x^2)), less its constant's leading double
    c = mp.mpf(float(2 / mp.sqrt(mp.pi)))
    return q(lambda v: mp.erf(mp.sqrt(v)) / mp.sqrt(v) - c, z, 2 / mp.sqrt(mp.pi) - c)


def erfcx(x):
    return mp.exp(x * x) * mp.erfc(x) if x < 80 else 1 / (x * mp.sqrt(mp.pi)) * mp.nsum(
        lambda k: (-1)**int(k) * mp.fac2(2 * k - 1) / (2 * x * x)**k, [0, 12])


def erfcx_mapped(t):  # x = 4 (1 + t) / (1 - t); value erfcx(x) (1 + 2 x)
    if t >= 1 - mp.mpf(10) ** -25:
        return 2 / mp.sqrt(mp.pi)
    x = 4 * (1 + t) / (1 - t)
    return erfcx(x) * (1 + 2 * x)


def lgamma_core(y):  # lgamma(1 + y) = y (y - 1) P(y)
    if abs(y) < mp.mpf(10) ** -18:
        return mp.euler
    if abs(y - 1) < mp.mpf(10) ** -18:
        return 1 - mp.euler
    return mp.loggamma(1 + y) / (y * (y - 1))


def stirling(z):  # lgamma x = (x - 1/2) log x - x + log(2 pi)/2 + P(1/x^2)/x
    if abs(z) < mp.mpf(10) ** -12:
        return mp.mpf(1) / 12 - z / 360
    x = 1 / mp.sqrt(z)
    with mp.workdps(90):
        return (mp.loggamma(x) - (x - mp.mpf(1) / 2) * mp.log(x) + x - mp.log(2 * mp.pi) / 2) * x


def erfinv_small(w):  # x = sqrt(1 - exp(-w)): erfinv(x)/x
    w = abs(w)
    if w < mp.mpf(10) ** -18:
        return mp.sqrt(mp.pi) / 2
    x = mp.sqrt(-mp.expm1(-w))
    return mp.erfinv(x) / x


def erfcinv_tail(s):  # s = sqrt(-log p): erfcinv(p)/s
    y = s
    for _ in range(60):  # Newton on log(erfc(y)) + s^2
        e = mp.erfc(y)
        step = (mp.log(e) + s * s) * e / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mp.mpf(10) ** -25:
            break
    return y / s


def around_zero(f, z):
    """f(z + t)/t, for a simple zero z of f."""
    d = mp.diff(f, z)
    return lambda t: f(z + t) / t if abs(t) > mp.mpf(10) ** -25 else d


J0, J1 = lambda x: mp.besselj(0, x), lambda x: mp.besselj(1, x)
Y0, Y1 = lambda x: mp.bessely(0, x), lambda x: mp.bessely(1, x)
I0, I1 = lambda x: mp.besseli(0, x), lambda x: mp.besseli(1, x)


def series(f, lowest):
    """f(sqrt(v)) as a function of v, given the value at 0."""
    return lambda v: q(lambda u: f(mp.sqrt(u)), v, mp.mpf(lowest))


def y0_regular(v):  # Y0(x) - 2/pi log(x) J0(x), even
    if v < mp.mpf(10) ** -20:
        return 2 / mp.pi * (mp.euler - mp.log(2))
    x = mp.sqrt(v)
    return Y0(x) - 2 / mp.pi * mp.log(x) * J0(x)


def y1_regular(v):  # (Y1(x) - 2/pi (log(x) J1(x) - 1/x))/x, even
    if v < mp.mpf(10) ** -20:
        return (2 * mp.euler - 1 - 2 * mp.log(2)) / (2 * mp.pi)
    x = mp.sqrt(v)
    return (Y1(x) - 2 / mp.pi * (mp.log(x) * J1(x) - 1 / x)) / x


def hankel(n, part):
    """P or Q of the Hankel expansion as functions of u = (8/x)^2; Q is divided by 8/x."""
    def f(u):
        if u < mp.mpf(10) ** -10:
            m = 4 * n * n
            z2 = u / 64
            if part == 'p':
                return 1 - mp.mpf((m - 1) * (m - 9)) / 128 * z2
            return (mp.mpf(m - 1) / 8 - mp.mpf((m - 1) * (m - 9) * (m - 25)) / 3072 * z2) / 8
        x = 8 / mp.sqrt(u)
        chi = x - (2 * n + 1) * mp.pi / 4
        a = mp.sqrt(mp.pi * x / 2)
        j, y = mp.besselj(n, x) * a, mp.bessely(n, x) * a
        if part == 'p':
            return j * mp.cos(chi) + y * mp.sin(chi)
        return (y * mp.cos(chi) - j * mp.sin(chi)) * x / 8
    return f


def i_tail(n):
    def f(u):  # u = 8/x: exp(-x) sqrt(x) I_n(x)
        if u < mp.mpf(10) ** -15:
            return 1 / mp.sqrt(2 * mp.pi)
        x = 8 / u
        if x > 200:
            m = 4 * n * n
            s, t = mp.mpf(1), mp.mpf(1)
            for k in range(1, 25):
                t *= -mp.mpf(m - (2 * k - 1)**2) / (k * 8 * x)
                s += t
            return s / mp.sqrt(2 * mp.pi)
        return mp.exp(-x) * mp.sqrt(x) * mp.besseli(n, x)
    return f


ln2 = mp.log(2)
FITS = [
    ('exp_f', 'float', exp_tail, (-ln2 / 2 - 0.001, ln2 / 2 + 0.001), 6),
    ('log_f', 'float', log1p_tail, (mp.mpf('-0.2930'), mp.mpf('0.4143')), 10),
    ('sin_f', 'float', sin_tail, (0, mp.mpf('0.6200')), 4),
    ('cos_f', 'float', cos_tail, (0, mp.mpf('0.6200')), 4),
    ('atan_f', 'float', atan_tail, (0, 1), 10),
    ('asin_f', 'float', asin_tail, (0, mp.mpf('0.2501')), 6),
    ('tanh_f', 'float', tanh_tail, (0, mp.mpf('0.3026')), 6),
    ('erf_f', 'float', erf_even, (0, mp.mpf('0.8464')), 7),
    ('exp_d', 'double', exp_tail, (-ln2 / 2 - 0.001, ln2 / 2 + 0.001), 11),
    ('log_d', 'double', lambda z: q(lambda v: (mp.atanh(mp.sqrt(v)) / mp.sqrt(v) - 1 - v / 3) * 2 / v**2, z,
                                    mp.mpf(2) / 5), (0, mp.mpf('0.02945')), 8),
    ('sin_d', 'double', sin_tail, (0, mp.mpf('0.6200')), 7),
    ('cos_d', 'double', cos_tail, (0, mp.mpf('0.6200')), 6),
    ('atan_d', 'double', atan_tail, (0, 1), 22),
    ('asin_d', 'double', asin_tail, (0, mp.mpf('0.2501')), 13),
    ('tanh_d', 'double', tanh_tail, (0, mp.mpf('0.3026')), 11),
    ('sinh_d', 'double', sinh_tail, (0, 1), 8),
    ('erf_d', 'double', erf_even, (0, mp.mpf('0.8464')), 12),
    ('erfcx_d', 'double', erfcx_mapped, (-1, 1), 24),
    ('lgamma_d', 'double', lgamma_core, (mp.mpf('-0.31'), mp.mpf('0.75')), 28),
    ('lgamma2_d', 'double', lambda t: lgamma_core(1 + t), (mp.mpf('-0.26'), mp.mpf('1.01')), 18),
    ('stirling_d', 'double', stirling, (0, mp.mpf(1) / 64), 7),
    ('erfinv_d', 'double', erfinv_small, (0, mp.mpf('5.0')), 12),
    ('erfcinv_d', 'double', erfcinv_tail, (mp.mpf('1.3'), mp.mpf('7.0')), 12),
    ('erfcinv2_d', 'double', erfcinv_tail, (mp.mpf('6.9'), mp.mpf('27.4')), 10),
    ('j0_small', 'double', series(J0, 1), (0, 2), 8),
    ('j0_z1', 'double', around_zero(J0, mp.besseljzero(0, 1)), (mp.mpf('-1.02'), mp.mpf('1.6')), 18),
    ('j0_z2', 'double', around_zero(J0, mp.besseljzero(0, 2)), (mp.mpf('-1.6'), mp.mpf('1.6')), 19),
    ('j0_z3', 'double', around_zero(J0, mp.besseljzero(0, 3)), (mp.mpf('-1.6'), mp.mpf('-0.6')), 14),
    ('j1_small', 'double', series(lambda x: J1(x) / x, mp.mpf(1) / 2), (0, mp.mpf('4.1')), 10),
    ('j1_z1', 'double', around_zero(J1, mp.besseljzero(1, 1)), (mp.mpf('-1.85'), mp.mpf('1.6')), 20),
    ('j1_z2', 'double', around_zero(J1, mp.besseljzero(1, 2)), (mp.mpf('-1.61'), mp.mpf('1.0')), 18),
    ('y0_small', 'double', y0_regular, (0, mp.mpf('0.31')), 7),
    ('y0_z1', 'double', around_zero(Y0, mp.besselyzero(0, 1)), (mp.mpf('-0.35'), mp.mpf('0.66')), 31),
    ('y0_mid', 'double', lambda t: Y0(2 + t), (mp.mpf('-0.46'), mp.mpf('0.51')), 20),
    ('y0_z2', 'double', around_zero(Y0, mp.besselyzero(0, 2)), (mp.mpf('-1.46'), mp.mpf('1.6')), 24),
    ('y0_z3', 'double', around_zero(Y0, mp.besselyzero(0, 3)), (mp.mpf('-1.6'), mp.mpf('0.95')), 18),
    ('y1_small', 'double', y1_regular, (0, mp.mpf('2.3')), 9),
    ('y1_z1', 'double', around_zero(Y1, mp.besselyzero(1, 1)), (mp.mpf('-0.7'), mp.mpf('1.7')), 33),
    ('y1_z2', 'double', around_zero(Y1, mp.besselyzero(1, 2)), (mp.mpf('-1.6'), mp.mpf('1.6')), 20),
    ('y1_z3', 'double', around_zero(Y1, mp.besselyzero(1, 3)), (mp.mpf('-1.6'), mp.mpf('-0.55')), 14),
    ('p0', 'double', hankel(0, 'p'), (0, 1), 9),
    ('q0', 'double', hankel(0, 'q'), (0, 1), 9),
    ('p1', 'double', hankel(1, 'p'), (0, 1), 9),
    ('q1', 'double', hankel(1, 'q'), (0, 1), 9),
    ('i0_small', 'double', series(I0, 1), (0, 64), 22),
    ('i1_small', 'double', series(lambda x: I1(x) / x, mp.mpf(1) / 2), (0, 64), 21),
    ('i0_tail', 'double', i_tail(0), (0, 1), 22),
    ('i1_tail', 'double', i_tail(1), (0, 1), 22),
]


def literal(value, type_):
    if type_ == 'float':
        f = struct.unpack('f', struct.pack('f', float(value)))[0]
        return float(f).hex() + 'f'
    return float(value).hex()


def main():
    print('// Near-minimax polynomials of the math functions. Generated by cc/math/fit.py; do not edit.')
    print('#ifndef ORRERY_CC_MATH_POLYNOMIALS_H\n#define ORRERY_CC_MATH_POLYNOMIALS_H')
    print('namespace orrery_cc { namespace poly {')
    for name, type_, f, (a, b), n in FITS:
        with mp.workdps(40 if name[0] in 'jyipq' else 60):
            c, err = mp.chebyfit(f, [mp.mpf(a), mp.mpf(b)], n, error=True)
        x = 'x'
        fma = '__builtin_fmaf' if type_ == 'float' else '__builtin_fma'
        print(f'// on [{mp.nstr(mp.mpf(a), 6)}, {mp.nstr(mp.mpf(b), 6)}], error {mp.nstr(err, 2)}')
        print(f'ORRERY_MATH {type_} {name}({type_} {x}) {{')
        print(f'  {type_} p = {literal(c[0], type_)};')
        for k in c[1:]:
            print(f'  p = {fma}(p, {x}, {literal(k, type_)});')
        print('  return p;\n}', flush=True)
    print('} }  // namespace orrery_cc::poly\n#endif')


main()
