#include "common/base/portable_math.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>

namespace paceline {
namespace {

// ln 2 in two parts (fdlibm): kLn2Hi has 21 trailing zero bits, so k * kLn2Hi is exact for |k| < 2^20.
constexpr double kLn2Hi = 6.93147180369123816490e-01;
constexpr double kLn2Lo = 1.90821492927058770002e-10;
constexpr double kInvLn2 = 1.44269504088896338700e+00;

// 2^k for k in the normal range, by its bits.
double PowerOfTwo(int64_t k) { return std::bit_cast<double>(static_cast<uint64_t>(k + 1023) << 52); }

// pi/2 in three parts of 33 bits each (fdlibm): n * kPio2_1 is exact for n < 2^20; the parts after it carry
// the rest.
constexpr double kPio2_1 = 1.57079632673412561417e+00;
constexpr double kPio2_2 = 6.07710050630396597660e-11;
constexpr double kPio2_3 = 2.02226624879595063154e-21;

struct Reduced {
  double r;          // |r| <= pi/4 and a little
  int64_t quadrant;  // x = r + quadrant * pi/2
};

Reduced ReducePio2(double x) {
  const double n = std::nearbyint(x * (1.0 / 1.5707963267948966));
  const double r = ((x - n * kPio2_1) - n * kPio2_2) - n * kPio2_3;
  return {r, static_cast<int64_t>(n)};
}

// Taylor polynomials on |r| <= 0.7854 + eps; the last term is below 2e-17.
double SinPoly(double r) {
  const double z = r * r;
  return r * (1.0 +
              z * (-1.0 / 6 +
                   z * (1.0 / 120 +
                        z * (-1.0 / 5040 + z * (1.0 / 362880 + z * (-1.0 / 39916800 +
                                                                    z * (1.0 / 6227020800.0 +
                                                                         z * (-1.0 / 1307674368000.0))))))));
}

double CosPoly(double r) {
  const double z = r * r;
  return 1.0 + z * (-0.5 + z * (1.0 / 24 +
                                z * (-1.0 / 720 +
                                     z * (1.0 / 40320 +
                                          z * (-1.0 / 3628800 + z * (1.0 / 479001600.0 +
                                                                     z * (-1.0 / 87178291200.0 +
                                                                          z * (1.0 / 20922789888000.0))))))));
}

}  // namespace

double PortableExp(double x) {
  if (std::isnan(x)) return x;
  if (x > 709.78) return std::numeric_limits<double>::infinity();
  if (x < -745.0) return 0.0;
  const double k = std::nearbyint(x * kInvLn2);
  const double r = (x - k * kLn2Hi) - k * kLn2Lo;  // |r| <= ln2 / 2
  // Taylor to degree 13: the next term is below 5e-18.
  double p = 1.0 / 6227020800.0;
  for (const double c : {1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0, 1.0 / 362880.0, 1.0 / 40320.0,
                         1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0}) {
    p = p * r + c;
  }
  const int64_t power = static_cast<int64_t>(k);
  // Two factors, so that results in the subnormal range round once.
  const int64_t half = power / 2;
  return p * PowerOfTwo(half) * PowerOfTwo(power - half);
}

double PortableLog(double x) {
  if (std::isnan(x) || x < 0) return std::numeric_limits<double>::quiet_NaN();
  if (x == 0) return -std::numeric_limits<double>::infinity();
  if (std::isinf(x)) return x;
  int64_t e = 0;
  if (x < 2.2250738585072014e-308) {  // subnormal: scale by 2^54
    x *= 18014398509481984.0;
    e = -54;
  }
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  e += static_cast<int64_t>(bits >> 52) - 1023;
  double m = std::bit_cast<double>((bits & 0x000FFFFFFFFFFFFFull) | 0x3FF0000000000000ull);  // [1, 2)
  if (m > 1.4142135623730951) {
    m *= 0.5;
    e += 1;
  }
  // log m = 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716; terms to s^21 leave 2e-18.
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  double p = 1.0 / 21;
  for (const double c :
       {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3}) {
    p = p * z + c;
  }
  const double log_m = 2.0 * s + 2.0 * s * z * p;
  const double k = static_cast<double>(e);
  return k * kLn2Hi + (log_m + k * kLn2Lo);
}

double PortableSin(double x) {
  const Reduced red = ReducePio2(x);
  switch (red.quadrant & 3) {
    case 0:
      return SinPoly(red.r);
    case 1:
      return CosPoly(red.r);
    case 2:
      return -SinPoly(red.r);
    default:
      return -CosPoly(red.r);
  }
}

double PortableCos(double x) {
  const Reduced red = ReducePio2(x);
  switch (red.quadrant & 3) {
    case 0:
      return CosPoly(red.r);
    case 1:
      return -SinPoly(red.r);
    case 2:
      return -CosPoly(red.r);
    default:
      return SinPoly(red.r);
  }
}

}  // namespace paceline
