// Texture and surface objects: fetches and accesses as the PTX instructions tex, tld4, suld, sust.
//
// Every fetch returns four 32-bit values; the type asked for says how many are taken and how: floats as they are (also
// for normalised reads of integer texels), integers cut to the element's width.
// Source: CUDA C++ Programming Guide, "Texture Functions" and "Surface Functions".
#ifndef ORRERY_CC_TEXTURES_H
#define ORRERY_CC_TEXTURES_H

namespace orrery_cc {
struct TexelFloat { float v[4]; };
struct TexelInt { unsigned v[4]; };

// Element type and count of a texel type.
template <class T> struct TexelShape { typedef T element; enum { count = 1 }; };
#define ORRERY_SHAPE(N, T)                                                            \
  template <> struct TexelShape<N##1> { typedef T element; enum { count = 1 }; };     \
  template <> struct TexelShape<N##2> { typedef T element; enum { count = 2 }; };     \
  template <> struct TexelShape<N##4> { typedef T element; enum { count = 4 }; };
ORRERY_SHAPE(char, signed char)
ORRERY_SHAPE(uchar, unsigned char)
ORRERY_SHAPE(short, short)
ORRERY_SHAPE(ushort, unsigned short)
ORRERY_SHAPE(int, int)
ORRERY_SHAPE(uint, unsigned)
ORRERY_SHAPE(float, float)
#undef ORRERY_SHAPE
template <class T> struct IsFloat { enum { value = 0 }; };
template <> struct IsFloat<float> { enum { value = 1 }; };

template <class T, class Words> ORRERY_DEV T to_texel(const Words& w) {
  typedef typename TexelShape<T>::element E;
  T result;
  E* e = (E*)&result;
  for (int i = 0; i < TexelShape<T>::count; i++) e[i] = (E)w.v[i];
  return result;
}

#define ORRERY_OUT_F(r) "=f"(r.v[0]), "=f"(r.v[1]), "=f"(r.v[2]), "=f"(r.v[3])
#define ORRERY_OUT_R(r) "=r"(r.v[0]), "=r"(r.v[1]), "=r"(r.v[2]), "=r"(r.v[3])

// One fetch in both result types. `op` is the instruction up to the result type, `coordinates` the operand list.
#define ORRERY_FETCH(F, PARAMS, op, ctype, coordinates, ...)                                          \
  ORRERY_DEV TexelFloat F##_f(cudaTextureObject_t t PARAMS) {                                         \
    TexelFloat r;                                                                                     \
    asm volatile(op ".f32." ctype " {%0, %1, %2, %3}, [%4, " coordinates "];"                         \
                 : ORRERY_OUT_F(r) : "l"(t), __VA_ARGS__);                                            \
    return r;                                                                                         \
  }                                                                                                   \
  ORRERY_DEV TexelInt F##_r(cudaTextureObject_t t PARAMS) {                                           \
    TexelInt r;                                                                                       \
    asm volatile(op ".u32." ctype " {%0, %1, %2, %3}, [%4, " coordinates "];"                         \
                 : ORRERY_OUT_R(r) : "l"(t), __VA_ARGS__);                                            \
    return r;                                                                                         \
  }
#define ORRERY_P(...) , __VA_ARGS__
ORRERY_FETCH(fetch_linear, ORRERY_P(int x), "tex.1d.v4", "s32", "{%5}", "r"(x))
ORRERY_FETCH(tex_1d, ORRERY_P(float x), "tex.1d.v4", "f32", "{%5}", "f"(x))
ORRERY_FETCH(tex_2d, ORRERY_P(float x, float y), "tex.2d.v4", "f32", "{%5, %6}", "f"(x), "f"(y))
ORRERY_FETCH(tex_3d, ORRERY_P(float x, float y, float z), "tex.3d.v4", "f32", "{%5, %6, %7, %7}", "f"(x), "f"(y), "f"(z))
ORRERY_FETCH(tex_1d_layered, ORRERY_P(float x, int l), "tex.a1d.v4", "f32", "{%5, %6}", "r"(l), "f"(x))
ORRERY_FETCH(tex_2d_layered, ORRERY_P(float x, float y, int l), "tex.a2d.v4", "f32", "{%5, %6, %7, %7}", "r"(l), "f"(x), "f"(y))
ORRERY_FETCH(tex_cube, ORRERY_P(float x, float y, float z), "tex.cube.v4", "f32", "{%5, %6, %7, %7}", "f"(x), "f"(y), "f"(z))
ORRERY_FETCH(tex_cube_layered, ORRERY_P(float x, float y, float z, int l), "tex.acube.v4", "f32", "{%5, %6, %7, %8}", "r"(l), "f"(x), "f"(y), "f"(z))
ORRERY_FETCH(gather_r, ORRERY_P(float x, float y), "tld4.r.2d.v4", "f32", "{%5, %6}", "f"(x), "f"(y))
ORRERY_FETCH(gather_g, ORRERY_P(float x, float y), "tld4.g.2d.v4", "f32", "{%5, %6}", "f"(x), "f"(y))
ORRERY_FETCH(gather_b, ORRERY_P(float x, float y), "tld4.b.2d.v4", "f32", "{%5, %6}", "f"(x), "f"(y))
ORRERY_FETCH(gather_a, ORRERY_P(float x, float y), "tld4.a.2d.v4", "f32", "{%5, %6}", "f"(x), "f"(y))
#undef ORRERY_FETCH
#define ORRERY_FETCH(F, PARAMS, op, coordinates, tail, ...)                                           \
  ORRERY_DEV TexelFloat F##_f(cudaTextureObject_t t PARAMS) {                                         \
    TexelFloat r;                                                                                     \
    asm volatile(op ".f32.f32 {%0, %1, %2, %3}, [%4, " coordinates "], " tail ";"                     \
                 : ORRERY_OUT_F(r) : "l"(t), __VA_ARGS__);                                            \
    return r;                                                                                         \
  }                                                                                                   \
  ORRERY_DEV TexelInt F##_r(cudaTextureObject_t t PARAMS) {                                           \
    TexelInt r;                                                                                       \
    asm volatile(op ".u32.f32 {%0, %1, %2, %3}, [%4, " coordinates "], " tail ";"                     \
                 : ORRERY_OUT_R(r) : "l"(t), __VA_ARGS__);                                            \
    return r;                                                                                         \
  }
ORRERY_FETCH(tex_1d_level, ORRERY_P(float x, float l), "tex.level.1d.v4", "{%5}", "%6", "f"(x), "f"(l))
ORRERY_FETCH(tex_2d_level, ORRERY_P(float x, float y, float l), "tex.level.2d.v4", "{%5, %6}", "%7", "f"(x), "f"(y), "f"(l))
ORRERY_FETCH(tex_3d_level, ORRERY_P(float x, float y, float z, float l), "tex.level.3d.v4", "{%5, %6, %7, %7}", "%8", "f"(x), "f"(y), "f"(z), "f"(l))
ORRERY_FETCH(tex_1d_grad, ORRERY_P(float x, float dx, float dy), "tex.grad.1d.v4", "{%5}", "{%6}, {%7}", "f"(x), "f"(dx), "f"(dy))
ORRERY_FETCH(tex_2d_grad, ORRERY_P(float x, float y, float2 dx, float2 dy), "tex.grad.2d.v4", "{%5, %6}", "{%7, %8}, {%9, %10}", "f"(x), "f"(y), "f"(dx.x), "f"(dx.y), "f"(dy.x), "f"(dy.y))
#undef ORRERY_FETCH
}  // namespace orrery_cc

// The result type decides between the float and the integer fetch. A normalised read of integer texels has a float
// result type, so the element type of T is all that is needed.
#define ORRERY_TEX(CUDA, F, PARAMS, ...)                                                              \
  template <class T> ORRERY_DEV T CUDA(cudaTextureObject_t t PARAMS) {                                \
    if constexpr (orrery_cc::IsFloat<typename orrery_cc::TexelShape<T>::element>::value)              \
      return orrery_cc::to_texel<T>(orrery_cc::F##_f(t, __VA_ARGS__));                                \
    else                                                                                              \
      return orrery_cc::to_texel<T>(orrery_cc::F##_r(t, __VA_ARGS__));                                \
  }                                                                                                   \
  template <class T> ORRERY_DEV void CUDA(T* out, cudaTextureObject_t t PARAMS) { *out = CUDA<T>(t, __VA_ARGS__); }
ORRERY_TEX(tex1Dfetch, fetch_linear, ORRERY_P(int x), x)
ORRERY_TEX(tex1D, tex_1d, ORRERY_P(float x), x)
ORRERY_TEX(tex2D, tex_2d, ORRERY_P(float x, float y), x, y)
ORRERY_TEX(tex3D, tex_3d, ORRERY_P(float x, float y, float z), x, y, z)
ORRERY_TEX(tex1DLayered, tex_1d_layered, ORRERY_P(float x, int l), x, l)
ORRERY_TEX(tex2DLayered, tex_2d_layered, ORRERY_P(float x, float y, int l), x, y, l)
ORRERY_TEX(texCubemap, tex_cube, ORRERY_P(float x, float y, float z), x, y, z)
ORRERY_TEX(texCubemapLayered, tex_cube_layered, ORRERY_P(float x, float y, float z, int l), x, y, z, l)
ORRERY_TEX(tex1DLod, tex_1d_level, ORRERY_P(float x, float l), x, l)
ORRERY_TEX(tex2DLod, tex_2d_level, ORRERY_P(float x, float y, float l), x, y, l)
ORRERY_TEX(tex3DLod, tex_3d_level, ORRERY_P(float x, float y, float z, float l), x, y, z, l)
ORRERY_TEX(tex1DGrad, tex_1d_grad, ORRERY_P(float x, float dx, float dy), x, dx, dy)
ORRERY_TEX(tex2DGrad, tex_2d_grad, ORRERY_P(float x, float y, float2 dx, float2 dy), x, y, dx, dy)
#undef ORRERY_TEX
template <class T> ORRERY_DEV T tex2Dgather(cudaTextureObject_t t, float x, float y, int component = 0) {
  if constexpr (orrery_cc::IsFloat<typename orrery_cc::TexelShape<T>::element>::value)
    return orrery_cc::to_texel<T>(component == 0   ? orrery_cc::gather_r_f(t, x, y)
                                  : component == 1 ? orrery_cc::gather_g_f(t, x, y)
                                  : component == 2 ? orrery_cc::gather_b_f(t, x, y)
                                                   : orrery_cc::gather_a_f(t, x, y));
  else
    return orrery_cc::to_texel<T>(component == 0   ? orrery_cc::gather_r_r(t, x, y)
                                  : component == 1 ? orrery_cc::gather_g_r(t, x, y)
                                  : component == 2 ? orrery_cc::gather_b_r(t, x, y)
                                                   : orrery_cc::gather_a_r(t, x, y));
}

// ---- surfaces: x in bytes ------------------------------------------------------------------------------------
// The words of a texel of N bytes: b8, b16, b32 or b64, one, two or four of them.
#define ORRERY_SURFACE_IO(G, coordinates, PARAMS, mode, ...)                                                   \
  ORRERY_DEV void surface_load_##G##_##mode(uchar1& v, cudaSurfaceObject_t s PARAMS) {                                \
    unsigned short r;                                                                                                 \
    asm volatile("suld.b." #G ".b8." #mode " {%0}, [%1, " coordinates(2, 3, 4) "];" : "=h"(r) : "l"(s), __VA_ARGS__ : "memory"); \
    v.x = (unsigned char)r;                                                                                           \
  }                                                                                                                   \
  ORRERY_DEV void surface_load_##G##_##mode(ushort1& v, cudaSurfaceObject_t s PARAMS) {                               \
    asm volatile("suld.b." #G ".b16." #mode " {%0}, [%1, " coordinates(2, 3, 4) "];" : "=h"(v.x) : "l"(s), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_load_##G##_##mode(uint1& v, cudaSurfaceObject_t s PARAMS) {                                 \
    asm volatile("suld.b." #G ".b32." #mode " {%0}, [%1, " coordinates(2, 3, 4) "];" : "=r"(v.x) : "l"(s), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_load_##G##_##mode(ulonglong1& v, cudaSurfaceObject_t s PARAMS) {                            \
    asm volatile("suld.b." #G ".b64." #mode " {%0}, [%1, " coordinates(2, 3, 4) "];" : "=l"(v.x) : "l"(s), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_load_##G##_##mode(ulonglong2& v, cudaSurfaceObject_t s PARAMS) {                            \
    asm volatile("suld.b." #G ".v2.b64." #mode " {%0, %1}, [%2, " coordinates(3, 4, 5) "];"                           \
                 : "=l"(v.x), "=l"(v.y) : "l"(s), __VA_ARGS__ : "memory");                                            \
  }                                                                                                                   \
  ORRERY_DEV void surface_store_##G##_##mode(uchar1 v, cudaSurfaceObject_t s PARAMS) {                                \
    asm volatile("sust.b." #G ".b8." #mode " [%0, " coordinates(2, 3, 4) "], {%1};" ::"l"(s), "h"((unsigned short)v.x), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_store_##G##_##mode(ushort1 v, cudaSurfaceObject_t s PARAMS) {                               \
    asm volatile("sust.b." #G ".b16." #mode " [%0, " coordinates(2, 3, 4) "], {%1};" ::"l"(s), "h"(v.x), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_store_##G##_##mode(uint1 v, cudaSurfaceObject_t s PARAMS) {                                 \
    asm volatile("sust.b." #G ".b32." #mode " [%0, " coordinates(2, 3, 4) "], {%1};" ::"l"(s), "r"(v.x), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_store_##G##_##mode(ulonglong1 v, cudaSurfaceObject_t s PARAMS) {                            \
    asm volatile("sust.b." #G ".b64." #mode " [%0, " coordinates(2, 3, 4) "], {%1};" ::"l"(s), "l"(v.x), __VA_ARGS__ : "memory"); \
  }                                                                                                                   \
  ORRERY_DEV void surface_store_##G##_##mode(ulonglong2 v, cudaSurfaceObject_t s PARAMS) {                            \
    asm volatile("sust.b." #G ".v2.b64." #mode " [%0, " coordinates(3, 4, 5) "], {%1, %2};"                           \
                 ::"l"(s), "l"(v.x), "l"(v.y), __VA_ARGS__ : "memory");                                               \
  }
#define ORRERY_C1(a, b, c) "{%" #a "}"
#define ORRERY_C2(a, b, c) "{%" #a ", %" #b "}"
#define ORRERY_C3(a, b, c) "{%" #a ", %" #b ", %" #c ", %" #c "}"
namespace orrery_cc {
#define ORRERY_SURFACES(mode)                                                                              \
  ORRERY_SURFACE_IO(1d, ORRERY_C1, ORRERY_P(int x), mode, "r"(x))                                        \
  ORRERY_SURFACE_IO(2d, ORRERY_C2, ORRERY_P(int x, int y), mode, "r"(x), "r"(y))                         \
  ORRERY_SURFACE_IO(3d, ORRERY_C3, ORRERY_P(int x, int y, int z), mode, "r"(x), "r"(y), "r"(z))          \
  ORRERY_SURFACE_IO(a1d, ORRERY_C2, ORRERY_P(int l, int x), mode, "r"(l), "r"(x))                        \
  ORRERY_SURFACE_IO(a2d, ORRERY_C3, ORRERY_P(int l, int x, int y), mode, "r"(l), "r"(x), "r"(y))
ORRERY_SURFACES(trap)
ORRERY_SURFACES(clamp)
ORRERY_SURFACES(zero)
#undef ORRERY_SURFACES
}  // namespace orrery_cc
#undef ORRERY_SURFACE_IO
#undef ORRERY_C1
#undef ORRERY_C2
#undef ORRERY_C3
#define ORRERY_BY_MODE(call, G, ...)                                                \
  switch (mode) {                                                                   \
    case cudaBoundaryModeZero: orrery_cc::call##_##G##_zero(__VA_ARGS__); break;    \
    case cudaBoundaryModeClamp: orrery_cc::call##_##G##_clamp(__VA_ARGS__); break;  \
    default: orrery_cc::call##_##G##_trap(__VA_ARGS__); break;                      \
  }
#define ORRERY_SURFACE(R, W, G, PARAMS, ...)                                                                        \
  template <class T> ORRERY_DEV T R(cudaSurfaceObject_t s PARAMS, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) { \
    typename orrery_cc::Bits<sizeof(T)>::type v;                                                                    \
    ORRERY_BY_MODE(surface_load, G, v, s, __VA_ARGS__)                                                              \
    return __builtin_bit_cast(T, v);                                                                                \
  }                                                                                                                 \
  template <class T>                                                                                                \
  ORRERY_DEV void R(T* out, cudaSurfaceObject_t s PARAMS, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {    \
    *out = R<T>(s, ORRERY_SURFACE_ARGS_##G, mode);                                                                  \
  }                                                                                                                 \
  template <class T>                                                                                                \
  ORRERY_DEV void W(T value, cudaSurfaceObject_t s PARAMS, cudaSurfaceBoundaryMode mode = cudaBoundaryModeTrap) {   \
    auto v = __builtin_bit_cast(typename orrery_cc::Bits<sizeof(T)>::type, value);                                  \
    ORRERY_BY_MODE(surface_store, G, v, s, __VA_ARGS__)                                                             \
  }
#define ORRERY_SURFACE_ARGS_1d x
#define ORRERY_SURFACE_ARGS_2d x, y
#define ORRERY_SURFACE_ARGS_3d x, y, z
#define ORRERY_SURFACE_ARGS_a1d x, l
#define ORRERY_SURFACE_ARGS_a2d x, y, l
ORRERY_SURFACE(surf1Dread, surf1Dwrite, 1d, ORRERY_P(int x), x)
ORRERY_SURFACE(surf2Dread, surf2Dwrite, 2d, ORRERY_P(int x, int y), x, y)
ORRERY_SURFACE(surf3Dread, surf3Dwrite, 3d, ORRERY_P(int x, int y, int z), x, y, z)
ORRERY_SURFACE(surf1DLayeredread, surf1DLayeredwrite, a1d, ORRERY_P(int x, int l), l, x)
ORRERY_SURFACE(surf2DLayeredread, surf2DLayeredwrite, a2d, ORRERY_P(int x, int y, int l), l, x, y)
#undef ORRERY_SURFACE
#undef ORRERY_BY_MODE
#undef ORRERY_P
#undef ORRERY_OUT_F
#undef ORRERY_OUT_R
#endif
