// L2Norm along the last axis.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

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

// Where weights lie behind staged rows: without gaps lanes would meet in the same banks.
__host__ __device__ inline int weight_place(int element) { return element + element / 32; }

// Short rows, taken in shared memory as Row does, the weights behind them.
template <class T, template <class> class Row>
__global__ void __launch_bounds__(kMostStagedThreads)
    l2norm_staged_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int length, int lanes,
        Scalars weight, Norm norm, bool stream)
{
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    float* const weights = static_cast<float*>(block.behind());
    block.ask_for(x);
    if (weight.data)
        for (int e = threadIdx.x; e < length; e += blockDim.x)
            weights[weight_place(e)] = weight.at(e);
    block.await();
    Row<T> const row(block);
    float sum = 0.f;
    row.look([&](float f, int) { sum = fmaf(f, f, sum); });
    Scale const scale(divisor_of(sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x, norm));
    if (weight.data)
        row.change([&](float f, int e) { return scale(f) * weights[weight_place(e)]; });
    else
        row.change([&](float f, int) { return scale(f); });
    block.take_back(y, stream);
}

// Rows by periods; each of a norm, or of one for every INNER-th element.
template <class T, int LENGTH, int INNER>
__global__ void __launch_bounds__(kPeriodThreads, 6)
    l2norm_periods_kernel(
        T const* __restrict__ x, T* __restrict__ y, int64_t rows, Scalars weight, Norm norm, bool stream)
{
    using P = Period<T, LENGTH>;
    constexpr int VEC = P::VEC, SUMS = P::ROWS * INNER;
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ float weights[LENGTH / INNER];
    StagedSpan<T> const block(staged, rows, LENGTH, P::rows_of(blockDim.x));
    block.ask_for(x);
    if (threadIdx.x < LENGTH / INNER)
        weights[threadIdx.x] = weight.data ? weight.at(threadIdx.x) : 1.f;
    block.await();
    auto const sum_of = [](int e) { return e / LENGTH * INNER + e % INNER; };
#pragma unroll 1
    for (int i = threadIdx.x; i * P::VECTORS * VEC < block.elements; i += blockDim.x)
    {
        T* const stage = block.stage + i * P::VECTORS * VEC;
        float sum[SUMS] = {};
#pragma unroll
        for (int j = 0; j < P::VECTORS; ++j)
        {
            auto const v = Vector<T>::of_shared(stage + j * VEC);
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float& s = sum[sum_of(j * VEC + k)];
                s = fmaf(v[k], v[k], s);
            }
        }
        bool usual = norm.moderate;
#pragma unroll
        for (float s : sum)
            usual = usual && is_moderate(s);
        asm volatile("" ::: "memory"); // the values again, rather than kept as floats
        auto const write = [&](auto const& scaled) {
#pragma unroll
            for (int j = 0; j < P::VECTORS; ++j)
            {
                auto const v = Vector<T>::of_shared(stage + j * VEC);
                float out[VEC];
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                {
                    int const e = j * VEC + k;
                    out[k] = scaled(v[k], sum[sum_of(e)]) * weights[e % LENGTH / INNER];
                }
                Vector<T>::of(out).store(stage + j * VEC, false);
            }
        };
        if (usual)
        {
#pragma unroll
            for (float& s : sum)
                s = moderate_factor(s, norm);
            write([](float f, float factor) { return f * factor; });
        }
        else
            write([&](float f, float s) { return Scale(divisor_of(s, norm))(f); });
    }
    block.take_back(y, stream);
}

} // namespace surgeon
