// The memory and string functions of C that device code may call.
#ifndef ORRERY_CC_STRINGS_H
#define ORRERY_CC_STRINGS_H
ORRERY_DEV void* memcpy(void* to, const void* from, size_t n) { return __builtin_memcpy(to, from, n); }
ORRERY_DEV void* memset(void* to, int value, size_t n) { return __builtin_memset(to, value, n); }
static __device__ __inline__ void* memmove(void* to, const void* from, size_t n) {
  char* t = (char*)to;
  const char* f = (const char*)from;
  if (t <= f) {
    for (size_t i = 0; i < n; i++) t[i] = f[i];
  } else {
    for (size_t i = n; i-- > 0;) t[i] = f[i];
  }
  return to;
}
static __device__ __inline__ int memcmp(const void* a, const void* b, size_t n) {
  const unsigned char *p = (const unsigned char*)a, *q = (const unsigned char*)b;
  for (size_t i = 0; i < n; i++)
    if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
  return 0;
}
static __device__ __inline__ size_t strlen(const char* s) {
  size_t n = 0;
  while (s[n]) n++;
  return n;
}
static __device__ __inline__ int strcmp(const char* a, const char* b) {
  while (*a && *a == *b) a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}
static __device__ __inline__ int strncmp(const char* a, const char* b, size_t n) {
  while (n && *a && *a == *b) a++, b++, n--;
  return n ? (unsigned char)*a - (unsigned char)*b : 0;
}
static __device__ __inline__ char* strcpy(char* to, const char* from) {
  char* t = to;
  while ((*t++ = *from++)) {
  }
  return to;
}
#endif
