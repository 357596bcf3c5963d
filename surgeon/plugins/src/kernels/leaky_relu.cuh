// LeakyRelu and PRelu.
#pragma once

#include "common.cuh"

namespace surgeon
{

template <class T, int PACKS>
__global__ void __launch_bounds__(256)
    leaky_relu_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t elements, float alpha, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t const first = (int64_t(blockIdx.x) * PACKS * blockDim.x + threadIdx.x) * VEC;
    Vector<T> v[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        v[p] = load_up_to(x, first + int64_t(p) * blockDim.x * VEC, elements, stream);
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
    {
        int64_t const e = first + int64_t(p) * blockDim.x * VEC;
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            float const f = v[p][k];
            out[k] = f < 0.f ? f * alpha : f;
        }
        store_up_to(y, e, elements, Vector<T>::of(out), stream);
    }
}

// Where an element of x finds its slope: x's extents, and the slope's strides, 0 where it is broadcast.
struct SlopeGeometry
{
    int rank;
    FastDiv<uint64_t> extents[kMaxRank];
    FastDiv<uint32_t> extents32[kMaxRank];
    int64_t strides[kMaxRank];

    __device__ int64_t at(uint64_t e, bool small) const
    {
        int64_t offset = 0;
#pragma unroll
        for (int a = kMaxRank - 1; a >= 0; --a)
        {
            if (a >= rank)
                continue;
            uint64_t const rest = small ? uint64_t(extents32[a](uint32_t(e))) : extents[a](e);
            offset += int64_t(e - rest * extents[a].d) * strides[a];
            e = rest;
        }
        return offset;
    }
};

template <class T, int PACKS>
__global__ void __launch_bounds__(256)
    prelu_kernel(T const* __restrict__ x, Scalars slope, T* __restrict__ y, int64_t elements, SlopeGeometry g,
        bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    bool const small = elements < (int64_t(1) << 31);
    int64_t const first = (int64_t(blockIdx.x) * PACKS * blockDim.x + threadIdx.x) * VEC;
    uint64_t const inner = g.extents[g.rank - 1].d;
    int64_t const step = g.strides[g.rank - 1];
    Vector<T> v[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        v[p] = load_up_to(x, first + int64_t(p) * blockDim.x * VEC, elements, stream);
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
    {
        int64_t const e = first + int64_t(p) * blockDim.x * VEC;
        if (e >= elements)
            break;
        uint64_t const row
            = small ? uint64_t(g.extents32[g.rank - 1](uint32_t(e))) : g.extents[g.rank - 1](uint64_t(e));
        bool const one_row = uint64_t(e) - row * inner + VEC <= inner;
        int64_t const base = g.at(e, small);
        float s = slope.at(base), out[VEC] = {};
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            if (e + k >= elements)
                break;
            if (k > 0 && !(one_row && step == 0))
                s = slope.at(one_row ? base + k * step : g.at(e + k, small));
            float const f = v[p][k];
            out[k] = f < 0.f ? f * s : f;
        }
        store_up_to(y, e, elements, Vector<T>::of(out), stream);
    }
}

} // namespace surgeon
