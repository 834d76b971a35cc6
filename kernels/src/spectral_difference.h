// Points and matrices of the spectral-difference method on [-1, 1], on the host: solution points are the Chebyshev-Gauss ones, flux points the roots of a
// Legendre polynomial and both ends. (Liu, Vinokur, Wang: J. Comput. Phys. 216, 2006; Sun, Wang, Liu: Commun. Comput. Phys. 2, 2007; with Legendre roots
// inside, the method is stable: Jameson: J. Sci. Comput. 45, 2010.) Computed with 64 bits of fraction and rounded once.
#pragma once
#include <cmath>

namespace orrery::kernels {

constexpr int kMostPoints = 6;  // solution points in a direction

struct SpectralDifference {
  double interpolate[kMostPoints + 1][kMostPoints];    // [flux point][solution point]: values at flux points of the polynomial through solution points
  double differentiate[kMostPoints][kMostPoints + 1];  // [solution point][flux point]: derivatives at solution points of that through flux points

  explicit SpectralDifference(int points) {
    using Real = long double;
    const Real pi = std::acos(Real(-1));
    Real at[kMostPoints], flux[kMostPoints + 1];
    for (int i = 0; i < points; i++) at[i] = -std::cos(Real(2 * i + 1) * pi / Real(2 * points));
    const int roots = points - 1;
    flux[0] = -1, flux[points] = 1;
    for (int k = 0; k < roots; k++) {
      Real x = -std::cos(pi * (Real(k) + Real(0.75)) / (Real(roots) + Real(0.5)));
      for (int step = 0; step < 20; step++) {  // Newton's; five would do
        Real before = 1, p = x;                // P_0 and P_1
        for (int n = 1; n < roots; n++) {
          const Real next = (Real(2 * n + 1) * x * p - Real(n) * before) / Real(n + 1);
          before = p, p = next;
        }
        x -= p * (x * x - 1) / (Real(roots) * (x * p - before));
      }
      flux[k + 1] = x;
    }
    for (int j = 0; j <= points; j++)
      for (int i = 0; i < points; i++) {
        Real value = 1;
        for (int m = 0; m < points; m++)
          if (m != i) value *= (flux[j] - at[m]) / (at[i] - at[m]);
        interpolate[j][i] = double(value);
      }
    for (int i = 0; i < points; i++)
      for (int j = 0; j <= points; j++) {
        Real slope = 0;
        for (int left_out = 0; left_out <= points; left_out++) {
          if (left_out == j) continue;
          Real term = 1 / (flux[j] - flux[left_out]);
          for (int m = 0; m <= points; m++)
            if (m != j && m != left_out) term *= (at[i] - flux[m]) / (flux[j] - flux[m]);
          slope += term;
        }
        differentiate[i][j] = double(slope);
      }
  }
};

}  // namespace orrery::kernels
