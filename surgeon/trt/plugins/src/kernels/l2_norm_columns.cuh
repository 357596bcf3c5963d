// L2Norm along an axis by columns: whole vectors in registers, or x read twice.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// x is [outer, channels, inner]; a block is a tile of blockDim.x columns (each VEC neighbours of `inner`) by blockDim.y
// threads that share the channels; every thread keeps its R packs in registers, so x is read once. blockDim.y
// is a power of two, and where blockDim.x is one of up to 32 the block is whole warps.
// Few weights are brought into shared memory while x is on its way; many are read where they are needed.
__host__ __device__ inline int kept_weights(int channels) { return channels <= 512 ? channels : 0; }

// ALONE: blockDim.y is 1, and a thread has all of its columns.
template <class T, int VEC, int R, bool ALONE>
__global__ void __launch_bounds__(512, sizeof(T) * VEC * R <= 128 ? 2 : 1)
    l2norm_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
        int64_t inner_packs, int channels, Norm norm, bool stream)
{
    await_predecessors();
    extern __shared__ float shared[]; // weights [channels], sums [VEC][rows][blockDim.x], divisors and
                                      // their reciprocals [VEC][blockDim.x] each
    int const width = blockDim.x, threads = width * blockDim.y, thread = threadIdx.y * width + threadIdx.x;
    int64_t const column = int64_t(blockIdx.x) * width + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = columns >> 32 ? column / inner_packs : int64_t(unsigned(column) / unsigned(inner_packs));
    int64_t const stride = inner_packs * VEC;
    int64_t const base = outer * channels * stride + (column - outer * inner_packs) * VEC;

    Pack<T, VEC> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        v[r] = live && c < channels ? Pack<T, VEC>::load(x + base + c * stride, stream) : Pack<T, VEC>::zeros();
    }
    int const kept = kept_weights(channels);
    for (int c = thread; c < kept; c += threads)
        shared[c] = weight.data ? weight.at(c) : 1.f;
    float sum[VEC] = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = fmaf(v[r][k], v[r][k], sum[k]);

    bool multiply = true, inverted = false;
    if constexpr (ALONE)
    {
        __syncthreads();
        inverted = norm.moderate;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            inverted = inverted && is_moderate(sum[k]);
        if (inverted)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = moderate_factor(sum[k], norm);
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = divisor_of(sum[k], norm);
    }
    else
    {
        // The threads of a warp that share a column first, then the warps.
        int const share = 32 % width == 0 ? 32 / width : 1, rows = blockDim.y / share;
        for (int m = width; m < 32 && share > 1; m *= 2)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] += __shfl_xor_sync(kWholeWarp, sum[k], m);
        float* const sums = shared + kept;
        if (threadIdx.y % share == 0)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sums[(k * rows + threadIdx.y / share) * width + threadIdx.x] = sum[k];
        __syncthreads();
        // One thread a column finishes it for all.
        float* const divisors = sums + VEC * rows * width;
        float* const factors = divisors + VEC * width;
        for (int i = thread; i < VEC * width; i += threads)
        {
            float total = 0.f;
            for (int row = 0; row < rows; ++row)
                total += sums[(i / width * rows + row) * width + i % width];
            divisors[i] = divisor_of(total, norm);
            factors[i] = reciprocal_of(divisors[i]);
            multiply = multiply && has_reciprocal(divisors[i]);
        }
        multiply = inverted = __syncthreads_and(multiply);
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = (inverted ? factors : divisors)[k * width + threadIdx.x];
    }
    if (!live)
        return;
    if (!inverted)
    {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            multiply = multiply && has_reciprocal(sum[k]);
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] = reciprocal_of(sum[k]);
    }
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const c = threadIdx.y + r * blockDim.y;
        if (c >= channels)
            break;
        v[r].forget();
        float const w = kept ? shared[c] : weight.data ? weight.at(c) : 1.f;
        float out[VEC];
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[r][k] * sum[k] * w;
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = __fdiv_rn(v[r][k], sum[k]) * w;
        Pack<T, VEC>::of(out).store(y + base + c * stride, stream);
    }
}

// More channels than the registers of a block hold: x is read twice.
template <class T>
__global__ void l2norm_long_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
    int64_t inner, int64_t channels, Norm norm)
{
    await_predecessors();
    extern __shared__ float partial[]; // [blockDim.y][blockDim.x]
    int64_t const column = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    bool const live = column < columns;
    int64_t const outer = column / inner, base = outer * channels * inner + (column - outer * inner);
    float sum = 0.f;
    if (live)
#pragma unroll 8
        for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
        {
            float const f = to_float(x[base + c * inner]);
            sum = fmaf(f, f, sum);
        }
    partial[threadIdx.y * blockDim.x + threadIdx.x] = sum;
    __syncthreads();
    sum = 0.f;
    for (int i = 0; i < blockDim.y; ++i)
        sum += partial[i * blockDim.x + threadIdx.x];
    if (!live)
        return;
    float const divisor = divisor_of(sum, norm);
#pragma unroll 8
    for (int64_t c = threadIdx.y; c < channels; c += blockDim.y)
    {
        float const w = weight.data ? weight.at(c) : 1.f;
        y[base + c * inner] = from_float<T>(to_float(x[base + c * inner]) / divisor * w);
    }
}

} // namespace surgeon
