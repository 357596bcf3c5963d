// L2Norm along one axis.
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

struct Norm
{
    NormMode mode;
    float eps;
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float reciprocal_of(float v)
{
    float r;
    asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    switch (norm.mode)
    {
    case NormMode::kMaxNorm: return larger(root_of(sum), norm.eps);
    case NormMode::kAddNorm: return root_of(sum) + norm.eps;
    case NormMode::kMaxSum: return root_of(larger(sum, norm.eps));
    case NormMode::kAddSum: return root_of(sum + norm.eps);
    case NormMode::kMinReciprocal: return larger(root_of(sum), 1.f / norm.eps);
    }
    return 1.f;
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
        factor = 1.f / (d * extra);
    }
    __device__ float operator()(float x) const { return x * factor * extra; }
};

// x is [outer, channels, inner]; a block is a tile of blockDim.x columns (each VEC neighbours of `inner`) by blockDim.y
// threads that share the channels; every thread keeps its R packs in registers, so x is read once. blockDim.x and
// blockDim.y are powers of two, and the block is at least a warp.
// Few weights are brought into shared memory while x is on its way; many are read where they are needed.
__host__ __device__ inline int kept_weights(int channels) { return channels <= 512 ? channels : 0; }

// ALONE: blockDim.y is 1, and a thread has all of its columns.
template <class T, int VEC, int R, bool ALONE>
__global__ void __launch_bounds__(512, sizeof(T) * VEC * R <= 128 ? 2 : 1)
    l2norm_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
        int64_t inner_packs, int channels, Norm norm, bool stream)
{
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
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = divisor_of(sum[k], norm);
    }
    else
    {
        // The threads of a warp that share a column first, then the warps.
        for (int m = width; m < 32; m *= 2)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                sum[k] += __shfl_xor_sync(kWholeWarp, sum[k], m);
        float* const sums = shared + kept;
        int const share = width < 32 ? 32 / width : 1, rows = blockDim.y / share;
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

// The same where tiles of whole vectors do not do: `inner` is no multiple of a vector, or the channels are so many that
// a block would hold a narrow tile only. The channels are spread over a cluster, R to a thread, blockDim.y (a multiple
// of VEC) apart: all of a thread's channels begin equally far inside a vector. A tile is `tile` columns wide; its
// blocks read a little more, so that every vector whose first element is in the tile is written whole, but at a
// channel's ends.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    l2norm_cluster_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t elements,
        int64_t inner, int channels, int tile, int tiles, Norm norm, bool stream)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ float shared[]; // sums [blockDim.y][VEC * pitch], the block's totals and divisors [VEC * pitch]
    int const width = blockDim.x, pitch = width + 4, threads = width * blockDim.y; // 4: no bank conflicts below
    int const thread = threadIdx.y * width + threadIdx.x, columns = width * VEC;
    unsigned const blocks = cluster_size(), rank = cluster_rank();
    unsigned const at = blockIdx.x / blocks, outer = at / unsigned(tiles);
    int64_t const begin = int64_t(at - outer * tiles) * tile; // the tile's first column
    int const first_channel = int(rank) * R * blockDim.y + threadIdx.y;
    int64_t const start = (int64_t(outer) * channels + first_channel) * inner + begin;
    int const lo = int(start % VEC), mine = threadIdx.x * VEC - lo; // this thread's first column, from the tile's
    int64_t const from = start - lo + threadIdx.x * VEC, step = blockDim.y * inner;
    bool const wanted = begin + mine < inner;
    float* const totals = shared + blockDim.y * VEC * pitch;
    float* const divisors = totals + VEC * pitch;
    auto const cell = [&](int column) { return column % VEC * pitch + column / VEC; };

    Vector<T> v[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
        v[r] = wanted && first_channel + r * int(blockDim.y) < channels
            ? load_up_to(x, from + r * step, elements, stream)
            : Vector<T>::zeros();
    float sum[VEC] = {};
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum[k] = fmaf(v[r][k], v[r][k], sum[k]);
        v[r].forget();
    }
#pragma unroll
    for (int k = 0; k < VEC; ++k)
        shared[(threadIdx.y * VEC + k) * pitch + threadIdx.x] = sum[k];
    __syncthreads();
    int const lo_step = int(inner % VEC);
    for (int column = thread; column < columns; column += threads)
    {
        // Where row y of the sums keeps this column: shifted by that row's lo.
        int shift = int((start - threadIdx.y * inner) % VEC);
        float total = 0.f;
        for (int row = 0; row < int(blockDim.y); ++row)
        {
            if (column + shift < columns)
                total += shared[row * VEC * pitch + cell(column + shift)];
            shift = (shift + lo_step) % VEC;
        }
        totals[cell(column)] = total;
    }
    if (blocks > 1)
    {
        cluster_arrive();
        cluster_wait();
    }
    else
        __syncthreads();
    bool multiply = true;
    int const summed = min(int64_t(lo_step ? tile + VEC - 1 : tile), inner - begin);
    for (int column = thread; column < columns; column += threads)
    {
        float total = 0.f;
        if (blocks > 1)
            for (unsigned i = 0; i < blocks; ++i)
                total += read_remote(totals + cell(column), i);
        else
            total = totals[cell(column)];
        float const d = column < summed ? divisor_of(total, norm) : 1.f;
        divisors[cell(column)] = d;
        multiply = multiply && has_reciprocal(d);
    }
    if (blocks > 1)
        cluster_arrive(); // awaited at the end: the totals must outlive the others' reads
    multiply = __syncthreads_and(multiply);
#pragma unroll
    for (int k = 0; k < VEC; ++k)
    {
        float const d = mine + k >= 0 ? divisors[cell(mine + k)] : 1.f;
        sum[k] = multiply ? reciprocal_of(d) : d;
    }
    bool const written = wanted && mine < tile && (mine >= 0 || begin == 0);
    bool const whole = mine >= 0 && begin + mine + VEC <= inner;
    if (written)
#pragma unroll
        for (int r = 0; r < R; ++r)
        {
            int const c = first_channel + r * blockDim.y;
            if (c >= channels)
                break;
            v[r].forget();
            float const w = weight.data ? weight.at(c) : 1.f;
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = (multiply ? v[r][k] * sum[k] : __fdiv_rn(v[r][k], sum[k])) * w;
            Vector<T> const result = Vector<T>::of(out);
            T* const p = y + from + r * step;
            if (whole)
                result.store(p, stream);
            else
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    if (mine + k >= 0 && begin + mine + k < inner)
                        reinterpret_cast<Bits<T>*>(p)[k] = result.bits(k);
        }
    if (blocks > 1)
        cluster_wait();
#endif
}

// More channels than the registers of a block hold: x is read twice.
template <class T>
__global__ void l2norm_long_columns_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t columns,
    int64_t inner, int64_t channels, Norm norm)
{
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

// The normalised axis is the last one: x is [rows, length], `lanes` neighbouring threads keep a row in registers.
template <class T, int R>
__global__ void __launch_bounds__(512, R <= 8 ? 2 : 1)
    l2norm_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length, int lanes,
        Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    __shared__ float2 scratch[32];
    int const group = threadIdx.x / lanes, lane = threadIdx.x - group * lanes;
    int64_t const row = int64_t(blockIdx.x) * (blockDim.x / lanes) + group;
    bool const live = row < rows;
    RowWindow<T> const window(live ? row * length : 0, live ? length : 0);

    Pack<T, VEC> v[R];
    float sum = 0.f;
#pragma unroll
    for (int r = 0; r < R; ++r)
        v[r] = window.raw(x, lane + r * lanes, rows * length, stream);
#pragma unroll
    for (int r = 0; r < R; ++r)
        window.trim(lane + r * lanes, v[r]);
#pragma unroll
    for (int r = 0; r < R; ++r)
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            sum = fmaf(v[r][k], v[r][k], sum);
    sum = sum_over_lanes(make_float2(sum, 0.f), lanes, scratch).x;
    float const divisor = divisor_of(sum, norm);
    Scale const scale(divisor);
#pragma unroll
    for (int r = 0; r < R; ++r)
    {
        int const j = lane + r * lanes;
        if (j * VEC >= window.hi)
            break;
        v[r].forget();
        float out[VEC];
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            out[k] = scale(v[r][k]);
        if (weight.data)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                if (window.inside(j * VEC + k))
                    out[k] *= weight.at(j * VEC + k - window.lo);
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

template <class T>
__global__ void __launch_bounds__(kStagedThreads)
    l2norm_staged_rows_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, int64_t rows, int length,
        int lanes, Norm norm, bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.bring(x);
    float sum = 0.f;
    block.look([&](Vector<T> const& v, auto const& inside) {
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            float const f = inside(k) ? v[k] : 0.f;
            sum = fmaf(f, f, sum);
        }
    });
    Scale const scale(divisor_of(sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x, norm));
    __syncthreads();
    if (weight.data)
        block.change([&](float f, int e) { return scale(f) * weight.at(e); });
    else
        block.change([&](float f, int) { return scale(f); });
    block.take_back(y, stream);
}

} // namespace surgeon
