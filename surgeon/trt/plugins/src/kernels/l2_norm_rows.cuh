// L2Norm along the last axis.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// The normalised axis is the last one: x is [rows, length], `lanes` neighbouring threads keep a row in registers. W is
// the weights' type, void for none.
template <class T, int R, class W>
__global__ void __launch_bounds__(512, R <= 8 && std::is_void<W>::value ? 2 : 1)
    l2norm_rows_kernel(T const* __restrict__ x, W const* __restrict__ weights, T* __restrict__ y, int64_t rows,
        int length, int lanes, Norm norm, bool stream)
{
    await_predecessors();
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
        if constexpr (!std::is_void<W>::value)
        {
            float some[VEC];
            neighbours(weights, j * VEC - window.lo, length, some);
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] *= some[k];
        }
        window.put(y, j, Vector<T>::of(out), stream);
    }
}

// Weights behind staged rows by words, as floats: a gap after every 32, so that lanes find theirs in different banks.
template <class T>
struct StagedWordWeights
{
    float* const weights;

    SURGEON_BOTH static int floats(int length) { return length + length / 32; }

    __device__ StagedWordWeights(void* shared, int length, Scalars const& from) : weights(static_cast<float*>(shared))
    {
        constexpr int VEC = kVectorBytes / sizeof(T);
        for (int e = threadIdx.x * VEC; from.data && e < length; e += blockDim.x * VEC)
        {
            float some[VEC];
            neighbours<T>(from, e, length, some);
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                if (e + k < length)
                    weights[place(e + k)] = some[k];
        }
    }

    __device__ int find(int) const { return 0; }

    template <int N>
    __device__ void weigh(float (&values)[N], int first, int) const
    {
#pragma unroll
        for (int k = 0; k < N; ++k)
            values[k] *= weights[place(first + k)];
    }

private:
    __device__ static int place(int e) { return e + e / 32; }
};

// The same of rows by vectors, of which lanes have neighbours. Weights with one place in a vector are neighbours, so
// that lanes read neighbours wherever in a vector rows begin; where all begin with one, four stay together, which a
// lane reads at once.
template <class T>
struct StagedVectorWeights
{
    static constexpr int VEC = kVectorBytes / sizeof(T), QUAD = 4;
    float* const weights;
    int const apart;  // vectors that there is room for
    bool const whole; // all rows begin with a vector

    struct Places
    {
        int at[VEC];
    };

    // 8 more than a multiple of 32, so that groups of 8 lanes whose rows begin at other elements have other banks.
    SURGEON_BOTH static int stride(int length) { return (ceil_div(length, VEC) + 23) / 32 * 32 + 8; }
    SURGEON_BOTH static int floats(int length) { return VEC * stride(length); }

    __device__ StagedVectorWeights(void* shared, int length, Scalars const& from)
        : weights(static_cast<float*>(shared)), apart(stride(length)), whole(length % VEC == 0)
    {
        for (int e = threadIdx.x * VEC; from.data && e < length; e += blockDim.x * VEC)
        {
            float some[VEC];
            neighbours<T>(from, e, length, some);
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                weights[place(e + k)] = some[k];
        }
    }

    // Where the weights of a vector are found, less the vector's number; of a row whose vector 0 has those from `first`
    // on.
    __device__ Places find(int first) const
    {
        Places p;
#pragma unroll
        for (int k = 0; k < VEC; ++k)
            p.at[k] = whole ? place(first + k) / QUAD : place(first + k);
        return p;
    }

    template <int N>
    __device__ void weigh(float (&values)[N], int first, Places const& found) const
    {
        int const vector = unsigned(first) / VEC;
        if constexpr (N != VEC)
#pragma unroll
            for (int k = 0; k < N; ++k)
                values[k] *= weights[place(first + k)];
        else if (whole)
#pragma unroll
            for (int k = 0; k < VEC; k += QUAD)
            {
                auto const w = Pack<float, QUAD>::of_shared(weights + (found.at[k] + vector) * QUAD);
#pragma unroll
                for (int i = 0; i < QUAD; ++i)
                    values[k + i] *= w[i];
            }
        else
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                values[k] *= weights[found.at[k] + vector];
    }

private:
    __device__ int place(int e) const
    {
        unsigned const in = unsigned(e) % VEC, vector = unsigned(e) / VEC;
        return whole ? (in / QUAD * apart + vector) * QUAD + in % QUAD : in * apart + vector;
    }
};

// Short rows, taken in shared memory as Row does, the weights behind them.
template <class T, template <class> class Row>
__global__ void __launch_bounds__(kMostStagedThreads, 6)
    l2norm_staged_kernel(T const* __restrict__ x, T* __restrict__ y, int64_t rows, int length, int lanes,
        Scalars weight, Norm norm, bool stream)
{
    extern __shared__ __align__(128) unsigned char staged[];
    StagedRows<T> const block(staged, rows, length, lanes);
    block.ask_for(x);
    std::conditional_t<Row<T>::VECTORS, StagedVectorWeights<T>, StagedWordWeights<T>> const weights(
        block.behind(), length, weight);
    block.await();
    Row<T> const row(block);
    float sum = 0.f;
    row.look([&](float f) { sum = fmaf(f, f, sum); });
    Scale const scale(divisor_of(sum_over_lanes(make_float2(sum, 0.f), lanes, nullptr).x, norm));
    auto const scaled = [&](auto& values) {
        for (float& f : values)
            f = scale(f);
    };
    if (weight.data)
    {
        auto const found = weights.find(-block.start & (StagedSpan<T>::VEC - 1));
        row.change([&](auto& values, int first) {
            scaled(values);
            weights.weigh(values, first, found);
        });
    }
    else
        row.change([&](auto& values, int) { scaled(values); });
    block.take_back(y, stream);
}

// Rows by periods; each of a norm, or of one for every INNER-th element.
template <class T, int LENGTH, int INNER>
__global__ void __launch_bounds__(Period<T, LENGTH>::THREADS, 6)
    l2norm_periods_kernel(
        T const* __restrict__ x, T* __restrict__ y, int64_t rows, Scalars weight, Norm norm, bool stream)
{
    await_predecessors();
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
