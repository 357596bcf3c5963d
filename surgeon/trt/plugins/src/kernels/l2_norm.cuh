// L2Norm along one axis: what its mappings share.
#pragma once

#include "common.cuh"

namespace surgeon
{

enum class NormMode : int32_t
{
    kMaxNorm = 0,       // x / max(||x||, eps)
    kAddNorm = 1,       // x / (||x|| + eps)
    kMaxSum = 2,        // x / sqrt(max(sum x^2, eps))
    kAddSum = 3,        // x / sqrt(sum x^2 + eps)
    kMinReciprocal = 4, // x * min(1 / ||x||, eps)
};

constexpr float kLeastSum = 1e-30f, kMostSum = 1e30f;

// The divisor is max(sqrt(max(sum, lowest_sum) + added_sum), lowest_norm) + added_norm.
// Every mode sets one of the four.
struct Norm
{
    float lowest_sum = 0.f, added_sum = 0.f, lowest_norm = 0.f, added_norm = 0.f;
    bool moderate; // from sums between kLeastSum and kMostSum, no step leaves the normal numbers

    Norm(NormMode mode, float eps) : moderate(eps >= 0.f)
    {
        switch (mode)
        {
        case NormMode::kMaxNorm: lowest_norm = eps; break;
        case NormMode::kAddNorm: added_norm = eps; break;
        case NormMode::kMaxSum: lowest_sum = eps; break;
        case NormMode::kAddSum: added_sum = eps; break;
        case NormMode::kMinReciprocal: lowest_norm = 1.f / eps; break;
        }
        for (float f : {lowest_sum, added_sum, lowest_norm, added_norm})
            moderate = moderate && f < kMostSum;
    }
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    return larger(root_of(larger(sum, norm.lowest_sum) + norm.added_sum), norm.lowest_norm) + norm.added_norm;
}

__device__ inline bool is_moderate(float sum) { return sum > kLeastSum && sum < kMostSum; }

// 1 / divisor_of(sum) of moderate sums: without the care that numbers near the ends of the range need.
__device__ inline float moderate_factor(float sum, Norm const& norm)
{
    float root, factor;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaxf(sum, norm.lowest_sum) + norm.added_sum));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(fmaxf(root, norm.lowest_norm) + norm.added_norm));
    return factor;
}

// Whether x / d is x * (1 / d) to rounding: not where 1 / d leaves the normal range (d zero, denormal, huge, inf, NaN).
__device__ inline bool has_reciprocal(float d) { return d > 1e-37f && d < 1e37f; }

// x / d as x * factor * extra, where extra is 1 unless 1 / d leaves the normal range.
struct Scale
{
    float factor, extra;

    __device__ explicit Scale(float d)
    {
        constexpr float kUp = 18446744073709551616.f; // 2^64
        extra = has_reciprocal(d) ? 1.f : d < 1.f ? kUp : 1.f / kUp;
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(d * extra)); // of a normal number, 0, inf or NaN
    }
    __device__ float operator()(float x) const { return x * factor * extra; }
};

#if SURGEON_DEVICE_HAS_ST_ASYNC
// One instruction: beside stores of single elements to the same place the compiler would make it four, and it would
// branch around what makes the vector.
template <class T>
__device__ inline void store_whole(T* p, Vector<T> const& v, bool does = true)
{
    asm volatile("{.reg .pred does; setp.ne.b32 does, %5, 0; @does st.global.v4.b32 [%0], {%1, %2, %3, %4};}" ::"l"(p),
        "r"(v.words[0]), "r"(v.words[1]), "r"(v.words[2]), "r"(v.words[3]), "r"(int(does))
        : "memory");
}
#endif

} // namespace surgeon
