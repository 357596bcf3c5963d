// L2Norm along an axis of few channels, a column a thread.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where the channels are few: into items of some neighbouring images.
struct StagedImages
{
    int64_t elements;
    unsigned items; // of so many images, the last of what is left
    int images, channels, inner, stages;
    FastDiv<uint32_t> over_inner;
};

constexpr int kMostStages = 4, kStagedMover = 32, kMostStagedImageThreads = 608 + kStagedMover;
constexpr int kStagedAtOnce = 8; // channels

// Few channels: a block has some items in shared memory, which come and go by bulk copies as they lie in memory, and
// each of its threads has whole columns of the item at work, so that nobody waits for another's sums. The last warp
// moves the items: one that is done leaves, and another comes to its place. Items are drawn from *tickets, which is 0
// before and after; without tickets the blocks take them in turn. FEW is the number of channels where that is below
// kStagedAtOnce, else 0; PER: neighbouring columns of a thread.
template <class T, int FEW, int PER>
__global__ void __launch_bounds__(kMostStagedImageThreads, SURGEON_DEVICE_HAS_ST_ASYNC ? 2 : 1)
    l2norm_few_channels_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, StagedImages g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int AT_ONCE = kStagedAtOnce;
    extern __shared__ __align__(128) unsigned char staged_memory[];
    __shared__ uint64_t full[kMostStages], done[kMostStages];
    __shared__ unsigned item_of[kMostStages];
    int const workers = int(blockDim.x) - kStagedMover, thread = threadIdx.x;
    int const image_elements = g.channels * g.inner, of_item = g.images * image_elements;
    int const room = stage_room<T>(of_item);
    T* const stages = reinterpret_cast<T*>(staged_memory);
    float* const weights = reinterpret_cast<float*>(stages + g.stages * room);
    for (int c = thread; c < g.channels; c += blockDim.x)
        weights[c] = weight.data ? weight.at(c) : 1.f;
    if (thread == 0)
    {
        for (int i = 0; i < g.stages; ++i)
        {
            barrier_init(full + i, kStagedMover);
            barrier_init(done + i, workers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    auto const span_of = [&](unsigned item) {
        int64_t const start = int64_t(item) * of_item;
        return StageSpan<T>(start, min(start + of_item, g.elements));
    };

    Ring ring;
    if (thread >= workers)
    {
        int const lane = thread - workers;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const fetch = [&](unsigned item) {
            if (lane == 0)
                item_of[ring.stage] = item;
            if (item >= g.items)
                return barrier_arrive(full + ring.stage);
            span_of(item).load(stages + ring.stage * room, x, g.elements, lane, full + ring.stage, policy);
        };
#pragma unroll 1
        for (; ring.stage < g.stages; ++ring.stage)
            fetch(blockIdx.x + ring.stage * gridDim.x);
        for (ring.stage = 0;; ring.advance(g.stages))
        {
            __syncwarp();
            unsigned const item = item_of[ring.stage];
            if (item >= g.items)
                break;
            unsigned drawn = 0;
            if (lane == 0 && tickets)
                drawn = atomicAdd(tickets, 1u);
            barrier_wait(done + ring.stage, ring.phase);
            span_of(item).store(stages + ring.stage * room, y, lane, policy);
            if (tickets && lane == 0 && drawn == g.items - 1)
                *tickets = 0; // every item draws once
            drawn = __shfl_sync(kWholeWarp, drawn, 0);
            __syncwarp(); // all have read what it was
            fetch(tickets ? g.stages * gridDim.x + drawn : item + g.stages * gridDim.x);
        }
        return;
    }
    float few_weights[FEW + 1];
#pragma unroll
    for (int c = 0; c < FEW; ++c)
        few_weights[c] = weights[c];
    // PER neighbouring columns.
    auto const scale_few = [&](T* first, float const(&by)[FEW + 1]) {
        Pack<T, PER> v[FEW + 1];
        float sum[PER] = {};
#pragma unroll
        for (int c = 0; c < FEW; ++c)
            v[c] = Pack<T, PER>::of_shared(first + c * g.inner);
        bool usual = norm.moderate;
#pragma unroll
        for (int k = 0; k < PER; ++k)
        {
#pragma unroll
            for (int c = 0; c < FEW; ++c)
                sum[k] = fmaf(v[c][k], v[c][k], sum[k]);
            usual = usual && is_moderate(sum[k]);
        }
        auto const write = [&](auto const& scaled) {
#pragma unroll
            for (int c = 0; c < FEW; ++c)
            {
                float out[PER];
#pragma unroll
                for (int k = 0; k < PER; ++k)
                    out[k] = scaled(v[c][k], sum[k]) * by[c];
                Pack<T, PER>::of(out).store(first + c * g.inner, false);
            }
        };
        if (usual)
        {
#pragma unroll
            for (int k = 0; k < PER; ++k)
                sum[k] = moderate_factor(sum[k], norm);
            write([](float f, float by_sum) { return f * by_sum; });
        }
        else
            write([&](float f, float of) { return Scale(divisor_of(of, norm))(f); });
    };
    auto const scale_many = [&](T* first) {
        float sum[4] = {};
        T const* p = first;
        int c = 0;
#pragma unroll 1
        for (; c + AT_ONCE <= g.channels; c += AT_ONCE)
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k, p += g.inner)
            {
                float const f = to_float(*p);
                sum[k % 4] = fmaf(f, f, sum[k % 4]);
            }
#pragma unroll 1
        for (; c < g.channels; ++c, p += g.inner)
            sum[0] = fmaf(to_float(*p), to_float(*p), sum[0]);
        float const total = (sum[0] + sum[1]) + (sum[2] + sum[3]);
        auto const write = [&](auto const& scaled) {
            T* q = first;
            int at = 0;
#pragma unroll 1
            for (; at + AT_ONCE <= g.channels; at += AT_ONCE, q += AT_ONCE * g.inner)
            {
                float v[AT_ONCE], w[AT_ONCE];
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
                    v[k] = to_float(q[k * g.inner]);
#pragma unroll
                for (int k = 0; k < AT_ONCE; k += 4)
                    *reinterpret_cast<float4*>(w + k) = *reinterpret_cast<float4 const*>(weights + at + k);
#pragma unroll
                for (int k = 0; k < AT_ONCE; ++k)
                    q[k * g.inner] = from_float<T>(scaled(v[k]) * w[k]);
            }
#pragma unroll 1
            for (; at < g.channels; ++at, q += g.inner)
                *q = from_float<T>(scaled(to_float(*q)) * weights[at]);
        };
        if (norm.moderate && is_moderate(total))
            write([factor = moderate_factor(total, norm)](float v) { return v * factor; });
        else
            write(Scale(divisor_of(total, norm)));
    };
    for (;; ring.advance(g.stages))
    {
        barrier_wait(full + ring.stage, ring.phase);
        unsigned const item = item_of[ring.stage];
        if (item >= g.items)
            return;
        auto const s = span_of(item);
        int const columns = (s.end - s.begin) / g.channels;
        T* const images = stages + ring.stage * room + s.begin;
        for (int column = thread * PER; column < columns; column += workers * PER)
        {
            int const image = int(g.over_inner(unsigned(column)));
            T* const first = images + image * (image_elements - g.inner) + column;
            if constexpr (FEW > 0)
                scale_few(first, few_weights);
            else
                scale_many(first);
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + ring.stage);
    }
#endif
}

} // namespace surgeon
