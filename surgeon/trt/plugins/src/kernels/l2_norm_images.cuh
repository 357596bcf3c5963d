// L2Norm along an axis by whole images, over clusters.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

// How [outer, channels, inner] is cut where an image, all channels of one outer index, fits the shared memory of a few
// blocks: into shares of neighbouring vectors, whole periods each. A period has the fewest vectors after which the
// columns that a vector holds come again.
struct ImageShares
{
    unsigned images;
    int channels, inner;
    int vectors;                 // of an image
    int period, period_channels; // the vectors of a period, the channels in it
    int periods;                 // of a share
    int groups;                  // periods that a block works on at once
};

constexpr int kImagesAtOnce = 2; // vectors of each thread that come and go as one piece
constexpr int kMostImagePieces = 32, kImagesMover = 32, kMostImageThreads = 832;

// Where the parts of a block's shared memory begin, in floats after its share.
struct ImagesMemory
{
    int sums = 0, divisors, gathered, weights, end, owned;

    __host__ __device__ ImagesMemory(ImageShares const& g, int vec, int blocks) : owned(ceil_div(g.inner, blocks))
    {
        divisors = sums + g.groups * g.period * vec;        // sums [groups][period's elements]
        gathered = divisors + place_of(g.inner);            // divisors [inner]
        weights = gathered + (blocks > 1 ? blocks * owned : 0); // gathered [blocks][owned]
        end = weights + g.periods * g.period_channels + 1;
    }
    // Neighbouring threads read every VEC-th column: without gaps they would meet in the same banks.
    __host__ __device__ static int place_of(int column) { return column + column / 32; }
};

#if SURGEON_DEVICE_HAS_ST_ASYNC
// All threads of the block but the last warp.
__device__ inline void workers_meet(int workers) { asm volatile("bar.sync 1, %0;" ::"r"(workers) : "memory"); }
#endif

// Short channels, or such that cut vectors: the blocks of a cluster hold an image, whose vectors come and go by bulk
// copies as they lie in memory. A thread's vectors are whole periods apart, so it has the same few columns in all of
// them, whose sums and divisors stay in its registers. A block finishes its share of the columns for the cluster: it
// gets all blocks' sums and sends them the divisors. The last warp moves the pieces: one that is done leaves, and the
// next image's comes to its place. Images are drawn from *tickets, which is 0 before and after; without tickets the
// clusters take them in turn.
template <class T>
__global__ void __launch_bounds__(kMostImageThreads, 1)
    l2norm_images_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ImageShares g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), AT_ONCE = kImagesAtOnce;
    extern __shared__ __align__(128) unsigned char images_memory[];
    __shared__ uint64_t gathered, divided, full[kMostImagePieces], done[kMostImagePieces];
    __shared__ float following; // image, as bits
    int const blocks = int(cluster_size()), rank = int(cluster_rank()), thread = threadIdx.x;
    int const work = g.groups * g.period, workers = blockDim.x - kImagesMover;
    unsigned const cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    int const begin = rank * g.periods * g.period, end = min(begin + g.periods * g.period, g.vectors);
    int const piece = AT_ONCE * work, pieces = end > begin ? ceil_div(end - begin, piece) : 0;
    int64_t const image_elements = int64_t(g.vectors) * VEC;

    ImagesMemory const memory(g, VEC, blocks);
    T* const share = reinterpret_cast<T*>(images_memory);
    float* const floats = reinterpret_cast<float*>(share + g.periods * g.period * VEC);
    float* const sums = floats + memory.sums;
    float* const divisors = floats + memory.divisors;
    float* const others = floats + memory.gathered;
    float* const weights = floats + memory.weights;
    int const first_channel = rank * g.periods * g.period_channels;
    for (int c = thread; c < memory.end - memory.weights; c += blockDim.x)
        weights[c] = weight.data && first_channel + c < g.channels ? weight.at(first_channel + c) : 1.f;
    if (thread == 0)
    {
        barrier_init(&gathered);
        barrier_init(&divided);
        for (int i = 0; i < pieces; ++i)
        {
            barrier_init(full + i);
            barrier_init(done + i, workers);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    cluster_arrive(); // the others' barriers are ready
    cluster_wait();

    unsigned image = cluster, turn = 0; // turn: of the barriers
    auto const after = [&] { return tickets ? __float_as_uint(following) : image + clusters; };
    if (thread >= workers)
    {
        if (thread > workers)
            return;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const bytes = [&](int i) { return unsigned(min(piece, end - begin - i * piece)) * kVectorBytes; };
        auto const start = [&](unsigned of, int i) { return of * image_elements + int64_t(begin + i * piece) * VEC; };
        auto const fetch = [&](unsigned of, int i) {
            bulk_announce(bytes(i), full + i);
            bulk_load(share + i * piece * VEC, x + start(of, i), bytes(i), full + i, policy);
        };
        for (int i = 0; i < pieces; ++i)
            fetch(image, i);
        for (unsigned next = image; image < g.images && pieces > 0; image = next, turn ^= 1)
        {
            for (int i = 0; i < pieces; ++i)
            {
                barrier_wait(done + i, turn);
                next = i == 0 ? after() : next;
                bulk_store(y + start(image, i), share + i * piece * VEC, bytes(i), policy);
                bulk_stores_but_one_have_read();
                if (i > 0 && next < g.images)
                    fetch(next, i - 1);
            }
            bulk_stores_have_read();
            if (next < g.images)
                fetch(next, pieces - 1);
        }
        return;
    }

    int const group = thread / g.period, vector = thread - group * g.period;
    int const packs = thread < work && begin + thread < end ? ceil_div(end - begin - thread, work) : 0;
    int const channel = vector * VEC / g.inner, column = vector * VEC - channel * g.inner;
    int const cut = g.inner - column; // elements of its vectors before the next channel begins
    int const owns = min(memory.owned, g.inner - rank * memory.owned);
    bool const draws = tickets && rank == 0 && thread == 0;
    for (; image < g.images; turn ^= 1)
    {
        unsigned drawn = 0;
        if (draws)
            drawn = atomicAdd(tickets, 1u);
        float sum[VEC] = {};
        T const* from = share + thread * VEC;
        for (int i = 0; i < pieces; ++i)
        {
            barrier_wait(full + i, turn);
#pragma unroll
            for (int j = 0; j < AT_ONCE; ++j, from += work * VEC)
                if (i * AT_ONCE + j < packs)
                {
                    auto const v = Vector<T>::of_shared(from);
#pragma unroll
                    for (int k = 0; k < VEC; ++k)
                        sum[k] = fmaf(v[k], v[k], sum[k]);
                }
        }
        if (thread < work)
        {
            auto* const to = reinterpret_cast<float4*>(sums + thread * VEC);
#pragma unroll
            for (int k = 0; k < VEC; k += 4)
                to[k / 4] = make_float4(sum[k], sum[k + 1], sum[k + 2], sum[k + 3]);
        }
        if (draws && drawn == g.images - 1)
            *tickets = 0; // every image draws once
        workers_meet(workers);
        if (thread == 0 && blocks > 1)
        {
            if (owns > 0)
                bulk_announce(unsigned(owns * blocks * sizeof(float)), &gathered);
            bulk_announce(unsigned((g.inner + (tickets ? 1 : 0)) * sizeof(float)), &divided);
        }
        for (int c = thread; c < g.inner; c += workers)
        {
            float total = 0.f;
#pragma unroll 8
            for (int i = 0; i < g.groups * g.period_channels; ++i)
                total += sums[i * g.inner + c];
            if (blocks == 1)
                divisors[memory.place_of(c)] = divisor_of(total, norm);
            else
                send_remote(others + rank * memory.owned + c % memory.owned, total, &gathered, c / memory.owned);
        }
        float const to_follow = __uint_as_float(clusters + drawn);
        if (blocks == 1 && draws)
            following = to_follow;
        if (blocks > 1)
        {
            if (thread < owns)
                barrier_wait(&gathered, turn); // so all blocks are at this image
            if (draws)
                for (int i = 0; i < blocks; ++i)
                    send_remote(&following, to_follow, &divided, i);
            for (int c = thread; c < owns; c += workers)
            {
                float total = 0.f;
#pragma unroll 8
                for (int i = 0; i < blocks; ++i)
                    total += others[i * memory.owned + c];
                float const divisor = divisor_of(total, norm);
                for (int i = 0; i < blocks; ++i)
                    send_remote(divisors + memory.place_of(rank * memory.owned + c), divisor, &divided, i);
            }
        }
        workers_meet(workers);
        if (blocks > 1)
            barrier_wait(&divided, turn);
        bool multiply = true;
        float factor[VEC];
        unsigned before_cut[VEC]; // as masks: the predicates of a comparison would not all fit
#pragma unroll
        for (int k = 0; k < VEC; ++k)
        {
            before_cut[k] = k < cut ? ~0u : 0u;
            asm volatile("" : "+r"(before_cut[k]));
            factor[k] = thread < work ? divisors[memory.place_of(k < cut ? column + k : k - cut)] : 1.f;
            multiply = multiply && has_reciprocal(factor[k]);
        }
        multiply = __all_sync(kWholeWarp, multiply);
        if (multiply)
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                factor[k] = reciprocal_of(factor[k]);
        auto const write = [&](auto const& scaled) {
            int const step = g.groups * g.period_channels;
            float const* w = weights + group * g.period_channels + channel;
            T* p = share + thread * VEC;
            for (int i = 0; i < pieces; ++i, p += piece * VEC, w += AT_ONCE * step)
            {
                Vector<T> v[AT_ONCE];
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j)
                    if (i * AT_ONCE + j < packs)
                        v[j] = Vector<T>::of_shared(p + j * work * VEC);
#pragma unroll
                for (int j = 0; j < AT_ONCE; ++j)
                    if (i * AT_ONCE + j < packs)
                    {
                        unsigned const here = __float_as_uint(w[j * step]), next = __float_as_uint(w[j * step + 1]);
                        float out[VEC];
#pragma unroll
                        for (int k = 0; k < VEC; ++k)
                            out[k] = scaled(v[j][k], factor[k])
                                * __uint_as_float((here & before_cut[k]) | (next & ~before_cut[k]));
                        Vector<T>::of(out).store(p + j * work * VEC, false);
                    }
                asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
                barrier_arrive(done + i);
            }
        };
        if (multiply)
            write([](float v, float f) { return v * f; });
        else
            write([](float v, float f) { return Scale(f)(v); });
        image = after();
    }
#endif
}

} // namespace surgeon
