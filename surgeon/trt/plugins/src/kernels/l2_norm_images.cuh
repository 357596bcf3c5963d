// L2Norm along an axis by whole images: short planes, and few channels.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where a block's shared memory holds some images, an image being all channels of
// one outer index: into items of neighbouring images, which are one span of memory.
struct ImageItems
{
    int64_t outer;
    unsigned items;
    int images, channels, inner; // images of an item, the last one of what is left
    int stages;                  // items that a block has
    int units;                   // of an image: a column, or two of halves where all planes begin with a whole word
    int lanes;                   // threads that share a unit
    FastDiv<uint32_t> over_units, over_image; // by the units; by an image's jobs or, where kAcross, by the images
};

// The channels of a thread's unit.
enum class ImageWay
{
    kAll,
    kAcross,  // all, neighbouring threads having the same unit of neighbouring images
    kRotated, // all, neighbouring images beginning with other channels, so that they meet in other banks
    kLanes,   // every so many, as lanes share a unit
};

constexpr int kImagesWorkers = 512, kImagesMover = 32, kMostImagesStages = 4;

#if SURGEON_DEVICE_HAS_ST_ASYNC
// A span of a tensor in a stage of shared memory, where it begins at the same place inside a line as in memory:
// elsewhere bulk copies take longer, 0.87 of a copy where this has 0.97. Moved by a warp.
template <class T>
struct StageSpan
{
    static constexpr int VEC = kVectorBytes / sizeof(T), LINE = kLineBytes / sizeof(T);
    int64_t base;   // the element that the stage begins with
    int begin, end; // of the span, in the stage

    __device__ StageSpan(int64_t from, int64_t to)
        : base(from / LINE * LINE), begin(int(from - base)), end(int(to - base))
    {
    }

    // The vectors around it. Every lane arrives at the barrier.
    __device__ void load(T* stage, T const* x, int64_t elements, int lane, uint64_t* barrier, uint64_t policy) const
    {
        int const first = begin / VEC * VEC, all = ceil_div(end, VEC) * VEC;
        int const whole = all > elements - base ? all - VEC : all; // the tensor's last vector may be cut
        if (whole + lane < end)
            stage[whole + lane] = x[base + whole + lane];
        if (lane > 0)
            return barrier_arrive(barrier);
        unsigned const bytes = unsigned((whole - first) * int(sizeof(T)));
        bulk_announce(bytes, barrier);
        bulk_load(stage + first, x + base + first, bytes, barrier, policy);
    }

    // Until the stage has been read.
    __device__ void store(T const* stage, T* y, int lane, uint64_t policy) const
    {
        int const first = min(ceil_div(begin, VEC) * VEC, end), last = max(end / VEC * VEC, first);
        if (begin + lane < first)
            y[base + begin + lane] = stage[begin + lane];
        if (last + lane < end)
            y[base + last + lane] = stage[last + lane];
        if (lane == 0)
        {
            bulk_store(y + base + first, stage + first, unsigned((last - first) * int(sizeof(T))), policy);
            bulk_stores_have_read();
        }
        __syncwarp();
    }
};

// All threads of the block but the last warp.
__device__ inline void workers_meet() { asm volatile("bar.sync 1, %0;" ::"n"(kImagesWorkers) : "memory"); }
#endif

// Elements of a stage for spans of so many.
template <class T>
__host__ __device__ constexpr int stage_room(int elements)
{
    return (ceil_div(elements, int(kLineBytes / sizeof(T))) + 1) * int(kLineBytes / sizeof(T));
}

// Items come and go by bulk copies as they lie in memory. The last warp moves them: one that is done leaves, and
// another comes to its place. The others are workers, each with a unit; only lanes wait for each other's sums. Items
// are drawn from *tickets, which is 0 before and after; without tickets the blocks take them in turn. PER: columns of a
// unit; FEW: channels, where a thread keeps those of a unit in registers, else 0.
template <class T, int PER, ImageWay WAY, int FEW>
__global__ void __launch_bounds__(kImagesWorkers + kImagesMover, SURGEON_DEVICE_HAS_ST_ASYNC ? 2 : 1)
    l2norm_images_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ImageItems g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    using Unit = Pack<T, PER>;
    extern __shared__ __align__(128) unsigned char images_memory[]; // stages, weights, sums [2][workers][PER]
    __shared__ uint64_t full[kMostImagesStages], done[kMostImagesStages];
    __shared__ unsigned item_of[kMostImagesStages];
    int const thread = threadIdx.x, of_image = g.channels * g.inner, room = stage_room<T>(g.images * of_image);
    T* const stages = reinterpret_cast<T*>(images_memory);
    float* const weights = reinterpret_cast<float*>(stages + g.stages * room);
    float* const sums = weights + g.channels;
    if (thread == 0)
    {
        for (int i = 0; i < g.stages; ++i)
        {
            barrier_init(full + i, kImagesMover);
            barrier_init(done + i, kImagesWorkers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    await_predecessors();
    __syncthreads();
    auto const images_in = [&](unsigned item) {
        return int(min(int64_t(g.images), g.outer - int64_t(item) * g.images));
    };
    auto const span_of = [&](unsigned item) {
        int64_t const start = int64_t(item) * g.images * of_image;
        return StageSpan<T>(start, start + images_in(item) * of_image);
    };

    Ring ring;
    if (thread >= kImagesWorkers)
    {
        int const lane = thread - kImagesWorkers;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const fetch = [&](unsigned item) {
            if (lane == 0)
                item_of[ring.stage] = item;
            if (item >= g.items)
                return barrier_arrive(full + ring.stage);
            span_of(item).load(
                stages + ring.stage * room, x, g.outer * of_image, lane, full + ring.stage, policy);
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

    for (int c = thread; weight.data && c < g.channels; c += kImagesWorkers) // while the first items come
        weights[c] = weight.at(c);
    workers_meet();
    // Each unit's sums over its lanes, for all of them: some lanes add others' sums up, then all lanes theirs.
    auto const add_lanes = [&](float (&sum)[PER], int lane, bool live) {
        constexpr int kSome = 8;
        int const apart = g.units * PER;
        auto const exchange = [&](float* to, int from, int step, int end) {
#pragma unroll
            for (int k = 0; k < PER; ++k)
                to[thread * PER + k] = sum[k], sum[k] = 0.f;
            workers_meet();
            float const* const first = to + thread * PER - lane * apart;
            for (int i = from; live && i < end; i += step)
#pragma unroll
                for (int k = 0; k < PER; ++k)
                    sum[k] += first[i * apart + k];
        };
        exchange(sums, lane, kSome, lane < kSome ? g.lanes : 0);
        exchange(sums + kImagesWorkers * PER, 0, 1, min(g.lanes, kSome));
    };
    // A job is a lane's part of a unit. The lanes of a unit have theirs in the same round.
    int const jobs_of_image = g.units * g.lanes,
              of_round = WAY == ImageWay::kLanes ? kImagesWorkers / jobs_of_image * jobs_of_image : kImagesWorkers;
    for (;; ring.advance(g.stages))
    {
        barrier_wait(full + ring.stage, ring.phase);
        unsigned const item = item_of[ring.stage];
        if (item >= g.items)
            return;
        int const begin = span_of(item).begin, images = images_in(item),
                  jobs = (WAY == ImageWay::kAcross ? g.images : images) * jobs_of_image;
        T* const stage = stages + ring.stage * room;
        for (int first = 0; first < jobs; first += of_round)
        {
            bool const live = thread < of_round && first + thread < jobs;
            if (WAY != ImageWay::kLanes && !live)
                break;
            unsigned const job = first + thread, major = g.over_image(job),
                           minor = job - major * (WAY == ImageWay::kAcross ? g.images : jobs_of_image),
                           image = WAY == ImageWay::kAcross ? minor : major,
                           in_image = WAY == ImageWay::kAcross ? major : minor,
                           lane = WAY == ImageWay::kLanes ? g.over_units(in_image) : 0;
            if (WAY == ImageWay::kAcross && int(image) >= images)
                continue;
            int const column = int(in_image - lane * g.units) * PER, top = begin + int(image) * of_image + column,
                      start = WAY == ImageWay::kRotated ? int(image % unsigned(g.channels)) : int(lane),
                      count = WAY == ImageWay::kLanes ? (live ? ceil_div(g.channels - start, g.lanes) : 0) : g.channels,
                      step = WAY == ImageWay::kLanes ? g.lanes : 1;
            // f(place, channel) for each of the job's channels.
            auto const each = [&](auto const& f) {
                if constexpr (FEW > 0)
#pragma unroll
                    for (int c = 0; c < FEW; ++c)
                        f(top + c * g.inner, c);
                else
                {
                    int c = start, e = top + c * g.inner;
#pragma unroll 4
                    for (int i = 0; i < count; ++i, c += step, e += step * g.inner)
                    {
                        if (WAY == ImageWay::kRotated && c == g.channels)
                            c = 0, e = top;
                        f(e, c);
                    }
                }
            };
            float sum[PER] = {};
            Unit kept[FEW + 1];
            each([&](int e, int c) {
                Unit const v = Unit::of_shared(stage + e);
                if constexpr (FEW > 0)
                    kept[c] = v;
#pragma unroll
                for (int k = 0; k < PER; ++k)
                    sum[k] = fmaf(v[k], v[k], sum[k]);
            });
            if constexpr (WAY == ImageWay::kLanes)
                add_lanes(sum, int(lane), live);
            auto const again = [&](int e, int c) {
                if constexpr (FEW > 0)
                    return kept[c];
                else
                    return Unit::of_shared(stage + e);
            };
            bool usual = norm.moderate;
#pragma unroll
            for (int k = 0; k < PER; ++k)
                usual = usual && is_moderate(sum[k]);
            auto const write = [&](auto const& scaled) {
                each([&](int e, int c) {
                    Unit const v = again(e, c);
                    float const w = weight.data ? weights[c] : 1.f;
                    float out[PER];
#pragma unroll
                    for (int k = 0; k < PER; ++k)
                        out[k] = scaled(v[k], sum[k]) * w;
                    Unit::of(out).store(stage + e, false);
                });
            };
            if (usual)
            {
#pragma unroll
                for (int k = 0; k < PER; ++k)
                    sum[k] = moderate_factor(sum[k], norm);
                write([](float f, float factor) { return f * factor; });
            }
            else
                write([&](float f, float of) { return Scale(divisor_of(of, norm))(f); });
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + ring.stage);
    }
#endif
}

} // namespace surgeon
