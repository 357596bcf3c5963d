// L2Norm along an axis that very few elements follow.
#pragma once

#include <algorithm>
#include <numeric>

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where `inner` is a few elements: into spans of some neighbouring images.
struct ShortPlanes
{
    int64_t outer;
    int images; // of a span
    int channels;
    int lanes; // that share an image: 1 to 32, a power of two, or the whole block
    int cycle; // of so many neighbouring groups of lanes, the images begin in different banks
};

constexpr int kMostPlaneBytes = 32, kMostShortPlanesThreads = 256;

// That a multiprocessor has the registers for, by a plane's elements.
constexpr int short_planes_threads(int64_t inner) { return inner > 10 ? 768 : 1024; }

constexpr int kWeightVectorsAtOnce = 4, kWeightsAtOnce = 16; // of a thread: as vectors, or where they cannot be such

// A plane as units, the largest that are aligned wherever an image begins; of an odd number of halves, two planes, from
// the image's first even element.
template <class T, int INNER>
struct PlaneUnits
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    static constexpr int PER = std::max(std::gcd(INNER, VEC), int(4 / sizeof(T)));
    static constexpr int STEP = std::lcm(INNER, PER), UNITS = STEP / PER, PLANES = STEP / INNER;
    static constexpr int AT_ONCE = std::max(kMostPlaneBytes / int(STEP * sizeof(T)), 1); // steps
    using Unit = Pack<T, PER>;
};

// A lane's part of an image in shared memory. The images of an odd number of halves have a single element, at that end
// which cuts a word, and the rest of a plane after the last two.
template <class T, int INNER>
struct PlanesOfLane
{
    using U = PlaneUnits<T, INNER>;
    static constexpr int REST = U::PLANES > 1 ? U::UNITS / 2 : 0; // units of the last plane's
    int channels, steps, lane, lanes, first, count;
    bool last; // the lane has the rest
    T* units = nullptr;
    T* single = nullptr;  // of column INNER - 1, counted from the first unit
    bool shifted = false; // the single element comes first, and the units begin with column 1

    __device__ PlanesOfLane(int of_image, int lanes_of_image, int at, int turn)
        : channels(of_image), steps(of_image / U::PLANES), lane(at), lanes(lanes_of_image)
    {
        count = lane < steps ? ceil_div(steps - lane, lanes) : 0;
        first = lane + (count > 0 ? turn % count : 0) * lanes;
        last = channels % U::PLANES != 0 && lane == steps % lanes;
    }

    // `start` elements from a whole word on.
    __device__ void take(T* stage, int start)
    {
        shifted = U::PLANES > 1 && start % 2 != 0;
        units = stage + start + shifted;
        single = stage + (shifted ? start : start + channels * INNER - 1);
    }

    // f(value, column) for each of the lane's elements, columns counted from the first unit's.
    template <class F>
    __device__ void look(F const& f) const
    {
        each([&](int step, auto many) {
#pragma unroll
            for (int j = 0; j < decltype(many)::value; ++j)
            {
                auto const v = U::Unit::of_shared(units + step * U::STEP + j * U::PER);
#pragma unroll
                for (int k = 0; k < U::PER; ++k)
                    f(v[k], (j * U::PER + k) % INNER);
            }
        });
        if (last)
            f(to_float(*single), INNER - 1);
    }

    // Every element becomes f(value, column) * weight_of(channel).
    template <class F, class W>
    __device__ void change(F const& f, W const& weight_of) const
    {
        each([&](int step, auto many) {
            int const channel = step * U::PLANES;
            float w[U::PLANES + 1];
            w[0] = weight_of(channel);
            if constexpr (decltype(many)::value == U::UNITS && U::PLANES > 1)
            {
                w[1] = weight_of(channel + 1);
                w[2] = shifted ? weight_of(channel + 2) : w[1];
            }
#pragma unroll
            for (int j = 0; j < decltype(many)::value; ++j)
            {
                T* const p = units + step * U::STEP + j * U::PER;
                auto const v = U::Unit::of_shared(p);
                float out[U::PER];
#pragma unroll
                for (int k = 0; k < U::PER; ++k)
                {
                    int const e = j * U::PER + k, plane = e / INNER;
                    bool const ends = U::PLANES > 1 && e % INNER == INNER - 1; // the next plane's where shifted
                    out[k] = f(v[k], e % INNER) * (ends && shifted ? w[plane + 1] : w[plane]);
                }
                U::Unit::of(out).store(p, false);
            }
        });
        if (last)
            *single = from_float<T>(f(to_float(*single), INNER - 1) * weight_of(shifted ? 0 : steps * U::PLANES));
    }

private:
    template <class F>
    __device__ void each(F const& f) const
    {
        constexpr int AT_ONCE = U::AT_ONCE;
        int step = first;
#pragma unroll AT_ONCE
        for (int i = 0; i < count; ++i)
        {
            f(step, std::integral_constant<int, U::UNITS>{});
            step += lanes;
            if (step >= steps)
                step = lane;
        }
        if constexpr (REST > 0)
            if (last)
                f(steps, std::integral_constant<int, REST>{});
    }
};

// Each column's sum over the lanes of an image, for all of them.
template <int INNER>
__device__ inline void add_lanes(float (&sum)[INNER], int lanes)
{
    constexpr int MOST = kMostShortPlanesThreads / 32;
    __shared__ float partial[MOST + 1][INNER];
    for (int m = min(lanes, 32) / 2; m > 0; m /= 2)
#pragma unroll
        for (int k = 0; k < INNER; ++k)
            sum[k] += __shfl_xor_sync(kWholeWarp, sum[k], m);
    if (lanes <= 32)
        return;
    int const thread = threadIdx.x, warps = lanes / 32;
    if (thread % 32 == 0)
#pragma unroll
        for (int k = 0; k < INNER; ++k)
            partial[thread / 32][k] = sum[k];
    __syncthreads();
    if (thread < INNER)
    {
        float total = 0.f;
        for (int i = 0; i < warps; ++i)
            total += partial[i][thread];
        partial[MOST][thread] = total;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < INNER; ++k)
        sum[k] = partial[MOST][k];
}

// Many at once are asked for: one after the other takes longer than the images do. N together, which lie aligned.
template <int N, class W>
__device__ inline void bring_weights(float* to, W const* from, int channels)
{
    constexpr int AT_ONCE = N > 1 ? kWeightVectorsAtOnce : kWeightsAtOnce, STORED = N > 1 ? 4 : 1;
    int const whole = channels / N * N, step = blockDim.x * N;
    for (int first = threadIdx.x * N; first < whole; first += AT_ONCE * step)
    {
        Pack<W, N> some[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * step < whole)
                some[i] = Pack<W, N>::load(from + first + i * step, false);
#pragma unroll
        for (int i = 0; i < AT_ONCE; ++i)
            if (first + i * step < whole)
#pragma unroll
                for (int k = 0; k < N; k += STORED)
                {
                    float out[STORED];
#pragma unroll
                    for (int j = 0; j < STORED; ++j)
                        out[j] = some[i][k + j];
                    Pack<float, STORED>::of(out).store(to + first + i * step + k, false);
                }
    }
    if (whole + int(threadIdx.x) < channels)
        to[whole + threadIdx.x] = to_float(from[whole + threadIdx.x]);
}

template <class W>
__device__ inline void bring_weights(float* to, W const* from, int channels)
{
    constexpr int VEC = kVectorBytes / sizeof(W);
    if (reinterpret_cast<uintptr_t>(from) % kVectorBytes == 0)
        bring_weights<VEC>(to, from, channels);
    else
        bring_weights<1>(to, from, channels);
}

__device__ inline void bring_weights(float* to, Scalars const& from, int channels)
{
    if (!from.data)
        return;
    switch (from.type)
    {
    case Type::kFloat: return bring_weights(to, static_cast<float const*>(from.data), channels);
    case Type::kHalf: return bring_weights(to, static_cast<__half const*>(from.data), channels);
    case Type::kBfloat16: return bring_weights(to, static_cast<__nv_bfloat16 const*>(from.data), channels);
    }
}

// A block has some images in shared memory as one span, which comes and goes as vectors. A lane's steps are such that
// its columns are always the same: their sums stay in registers.
template <class T, int INNER>
__global__ void __launch_bounds__(kMostShortPlanesThreads, short_planes_threads(INNER) / kMostShortPlanesThreads)
    l2norm_short_planes_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ShortPlanes g, Norm norm,
        bool stream)
{
    constexpr int VEC = kVectorBytes / sizeof(T);
    extern __shared__ __align__(128) unsigned char planes_memory[];
    int const image_elements = g.channels * INNER;
    int64_t const first = int64_t(blockIdx.x) * g.images, elements = g.outer * image_elements;
    int const images = int(min(int64_t(g.images), g.outer - first));
    RowWindow<T> const span(first * image_elements, images * image_elements);
    T* const stage = reinterpret_cast<T*>(planes_memory);
    float* const weights = reinterpret_cast<float*>(stage + (ceil_div(g.images * image_elements, VEC) + 1) * VEC);
    for (int j = threadIdx.x; j < span.vectors(); j += blockDim.x)
    {
        int64_t const e = span.first + j * VEC;
        if (e + VEC <= elements)
            __pipeline_memcpy_async(stage + j * VEC, x + e, kVectorBytes);
        else
            load_up_to(x, e, elements, stream).store(stage + j * VEC, false);
    }
    __pipeline_commit();
    bring_weights(weights, weight, g.channels);
    __pipeline_wait_prior(0);
    __syncthreads();

    int const group = threadIdx.x / g.lanes, lane = threadIdx.x - group * g.lanes, groups = blockDim.x / g.lanes;
    PlanesOfLane<T, INNER> mine(g.channels, g.lanes, lane, int(threadIdx.x % 32) / g.lanes / g.cycle);
    auto const weight_of = [&](int c) { return weight.data ? weights[c] : 1.f; };
#pragma unroll 1
    for (int i = 0; i < images; i += groups)
    {
        bool const live = i + group < images;
        mine.take(stage, span.lo + (i + group) * image_elements);
        float sum[INNER] = {};
        if (live)
            mine.look([&](float f, int k) { sum[k] = fmaf(f, f, sum[k]); });
        add_lanes(sum, g.lanes);
        if (!live)
            continue;
        bool usual = norm.moderate;
#pragma unroll
        for (float s : sum)
            usual = usual && is_moderate(s);
        if (usual)
        {
#pragma unroll
            for (float& s : sum)
                s = moderate_factor(s, norm);
            mine.change([&](float f, int k) { return f * sum[k]; }, weight_of);
        }
        else
        {
#pragma unroll
            for (float& s : sum)
                s = divisor_of(s, norm);
            mine.change([&](float f, int k) { return Scale(sum[k])(f); }, weight_of);
        }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < span.vectors(); j += blockDim.x)
        span.put(y, j, Vector<T>::of_shared(stage + j * VEC), stream);
}

} // namespace surgeon
