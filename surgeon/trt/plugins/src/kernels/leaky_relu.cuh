// LeakyRelu and PRelu.
#pragma once

#include "common.cuh"

namespace surgeon
{

// A thread's vectors: all of x's are on their way before the first is waited for.
template <class T, int PACKS>
struct Elementwise
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    int64_t elements;
    bool stream;
    Vector<T> v[PACKS];

    __device__ Elementwise(T const* __restrict__ x, int64_t elements, bool stream) : elements(elements), stream(stream)
    {
#pragma unroll
        for (int p = 0; p < PACKS; ++p)
            v[p] = load_up_to(x, first(p), elements, stream);
    }

    __device__ int64_t first(int p) const
    {
        return ((int64_t(blockIdx.x) * PACKS + p) * blockDim.x + threadIdx.x) * VEC;
    }

    // Stores what the slopes make of vector p: slope(k) is its element k's.
    template <class F>
    __device__ void store(T* __restrict__ y, int p, F const& slope) const
    {
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = v[p][k] < 0.f ? v[p][k] * slope(k) : v[p][k];
        store_up_to(y, first(p), elements, Vector<T>::of(out), stream);
    }
};

template <class T, int PACKS>
__global__ void __launch_bounds__(256)
    leaky_relu_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t elements, float alpha, bool stream)
{
    await_predecessors();
    Elementwise<T, PACKS> const vectors(x, elements, stream);
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        vectors.store(y, p, [&](int) { return alpha; });
}

// Where an element of x finds its slope: x's extents, innermost first, and the slope's strides, 0 where it is
// broadcast. U: uint32_t where x has fewer than 2^31 elements.
template <class U>
struct SlopeGeometry
{
    int rank;
    FastDiv<U> extents[kMaxRank];
    U strides[kMaxRank];

    __device__ U at(U e) const
    {
        U offset = 0;
#pragma unroll 1
        for (int a = 0; a < rank; ++a)
        {
            U const rest = a < rank - 1 ? extents[a](e) : 0;
            offset += (e - rest * extents[a].d) * strides[a];
            e = rest;
        }
        return offset;
    }
};

template <class T, class U, int PACKS>
__global__ void __launch_bounds__(256)
    prelu_kernel(T const* __restrict__ x, Scalars slope, T* __restrict__ y, int64_t elements, SlopeGeometry<U> g,
        bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    await_predecessors();
    Elementwise<T, PACKS> const vectors(x, elements, stream);
    U base[PACKS];
    float first[PACKS];
    bool one_row[PACKS];
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
    {
        int64_t const e = vectors.first(p);
        U const inner = g.extents[0].d, column = U(e) - g.extents[0](U(e)) * inner;
        one_row[p] = column + VEC <= inner;
        base[p] = e < elements ? g.at(U(e)) : 0;
        first[p] = slope.at(base[p]);
    }
#pragma unroll
    for (int p = 0; p < PACKS; ++p)
        if (one_row[p] && g.strides[0] == 0)
            vectors.store(y, p, [&](int) { return first[p]; });
        else
            vectors.store(y, p, [&](int k) {
                int64_t const e = vectors.first(p) + k;
                return e < elements ? slope.at(one_row[p] ? base[p] + k * g.strides[0] : g.at(U(e))) : 0.f;
            });
}

} // namespace surgeon
