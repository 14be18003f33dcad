// exp and log whose bits do not depend on the C library: fixed polynomials in double, plain + - * / only.
//
// Tokens must be the same on every machine, and libm versions differ in last bits. Accuracy: relative error
// below 1e-14 over the finite range (test compares with long double libm).
#pragma once

namespace paceline {

double PortableExp(double x);  // x < -745: 0; x > 709.78: +inf; NaN passes through
double PortableLog(double x);  // x == 0: -inf; x < 0: NaN
double PortableCos(double x);  // |x| < 2^30 (rope angles), argument reduction in double-double
double PortableSin(double x);  // as PortableCos

}  // namespace paceline
