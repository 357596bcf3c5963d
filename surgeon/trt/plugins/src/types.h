// What the kernels and their callers share; host code needs no CUDA compiler for it.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SURGEON_BOTH __host__ __device__
#else
#define SURGEON_BOTH
#endif

namespace surgeon
{

enum class Type : int32_t
{
    kFloat = 0,
    kHalf = 1,
    kBfloat16 = 2,
};

constexpr int kMaxRank = 8; // TensorRT's Dims::MAX_DIMS
constexpr int kVectorBytes = 16;

inline int64_t size_of(Type type)
{
    return type == Type::kFloat ? 4 : 2;
}

template <class N>
SURGEON_BOTH constexpr N ceil_div(N n, N d)
{
    return (n + d - 1) / d;
}

inline int64_t next_power_of_two(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

} // namespace surgeon
