// L2Norm along one axis.
#pragma once

#include <numeric>

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

constexpr float kLeastSum = 1e-30f, kMostSum = 1e30f;

// The divisor is max(sqrt(max(sum, lowest_sum) + added_sum), lowest_norm) + added_norm.
// Every mode sets one of the four.
struct Norm
{
    float lowest_sum = 0.f, added_sum = 0.f, lowest_norm = 0.f, added_norm = 0.f;
    bool moderate; // from sums between kLeastSum and kMostSum, no step leaves the normal numbers

    Norm(NormMode mode, float eps) : moderate(eps >= 0.f)
    {
        switch (mode)
        {
        case NormMode::kMaxNorm: lowest_norm = eps; break;
        case NormMode::kAddNorm: added_norm = eps; break;
        case NormMode::kMaxSum: lowest_sum = eps; break;
        case NormMode::kAddSum: added_sum = eps; break;
        case NormMode::kMinReciprocal: lowest_norm = 1.f / eps; break;
        }
        for (float f : {lowest_sum, added_sum, lowest_norm, added_norm})
            moderate = moderate && f < kMostSum;
    }
};

// Within one unit in the last place, at a fraction of the exact ones' instructions.
__device__ inline float root_of(float v)
{
    float r;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

__device__ inline float larger(float a, float b) { return a < b ? b : a; } // keeps a NaN in a

__device__ inline float divisor_of(float sum, Norm const& norm)
{
    return larger(root_of(larger(sum, norm.lowest_sum) + norm.added_sum), norm.lowest_norm) + norm.added_norm;
}

__device__ inline bool is_moderate(float sum) { return sum > kLeastSum && sum < kMostSum; }

// 1 / divisor_of(sum) of moderate sums: without the care that numbers near the ends of the range need.
__device__ inline float moderate_factor(float sum, Norm const& norm)
{
    float root, factor;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(fmaxf(sum, norm.lowest_sum) + norm.added_sum));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(fmaxf(root, norm.lowest_norm) + norm.added_norm));
    return factor;
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
        asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(factor) : "f"(d * extra)); // of a normal number, 0, inf or NaN
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

// How [outer, channels, inner] is cut where blocks of whole vectors do not do: `inner` is no multiple of a vector or of
// a line, or the channels are so many that a block would hold a narrow tile only. A tile is `width` neighbouring
// columns by all channels, which the blocks of a cluster share.
struct ChannelTiles
{
    int64_t elements, inner;
    unsigned items, tiles; // tiles in all, tiles of one outer index
    unsigned within;       // so many tiles first, of which no vector sticks out of the tensor
    FastDiv<uint32_t> over_tiles;
    int channels;
    int width, extra; // extra: columns that a block needs beyond the tile, to write whole sectors
};

constexpr int kSectorBytes = 32, kLineBytes = 128;
constexpr int kTilesThreads = 512, kTilesAdders = 128, kTilesPacks = 8, kTilesStages = 3;

// The floats of a block's shared memory, in the order in which they lie there.
struct TilesMemory
{
    int sums, factors, extras, partials;

    __host__ __device__ constexpr TilesMemory(int x, int vec, int sector, int blocks)
        : sums(kTilesThreads / x * (x * vec + sector)), // [Y][columns + sector]
          factors(4 * (x * vec + 2 * sector)),          // [2][2][columns + 2 sectors]: for an even and an odd shift
          extras(2 * x * vec),                          // [2][columns]
          partials(2 * blocks * (x * vec > kTilesAdders ? x * vec : kTilesAdders)) // [2][blocks][parts][columns]
    {
    }
    __host__ __device__ constexpr int floats() const { return sums + factors + extras + partials; }
};

#if SURGEON_DEVICE_HAS_ST_ASYNC
// One vector into shared memory, and its whole line into the L2 cache, where a neighbour's tile looks for the rest.
// Counted by __pipeline_commit().
__device__ inline void copy_async(unsigned to, void const* from)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// One instruction: beside stores of single elements to the same place the compiler would make it four.
template <class T>
__device__ inline void store_whole(T* p, Vector<T> const& v)
{
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.words[0]), "r"(v.words[1]),
        "r"(v.words[2]), "r"(v.words[3])
        : "memory");
}
#endif

// The elements whose bits are set.
template <class T>
__device__ inline void store_inside(T* p, Vector<T> const& v, unsigned inside)
{
    constexpr int VEC = kVectorBytes / sizeof(T), PER_WORD = 4 / sizeof(T);
    auto* const words = reinterpret_cast<unsigned*>(p);
#pragma unroll
    for (int i = 0; i < Vector<T>::WORDS; ++i)
    {
        unsigned const of_word = inside >> i * PER_WORD & ((1u << PER_WORD) - 1);
        if (of_word == (1u << PER_WORD) - 1)
            words[i] = v.words[i];
        else
#pragma unroll
            for (int k = i * PER_WORD; k < (i + 1) * PER_WORD && k < VEC; ++k)
                if (inside >> k & 1)
                    reinterpret_cast<Bits<T>*>(p)[k] = v.bits(k);
    }
}

// The block is X vectors by THREADS / X channels, and some warps of adders; a thread has the vectors of R channels, so
// far apart (a multiple of a sector's elements) that all of its pieces begin equally far inside a sector; they come to
// its own places in shared memory. While the adders bring a tile's sums of squares together, the threads scale and
// write the tile before it, and the one after it comes. The blocks of a cluster send each other their sums: a barrier
// of the cluster would wait for the tile before to be written.
// Every memory sector whose first element is in the tile is written whole, but at a channel's ends: hence the `extra`
// columns. Vectors are counted from a sector's begin: loads that cut sectors cost a tenth of the time.
// Clusters draw their tiles from *tickets, which is 0 before and after, so that the tiles at work are neighbours and
// the DRAM's pages are used while they are open; without tickets the clusters take tiles in turn.
template <class T, int X>
__global__ void __launch_bounds__(kTilesThreads + kTilesAdders, 1)
    l2norm_tiles_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, ChannelTiles g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), SECTOR = kSectorBytes / sizeof(T);
    constexpr int THREADS = kTilesThreads, ADDERS = kTilesAdders, R = kTilesPacks, STAGES = kTilesStages, ORDER = 8;
    constexpr int Y = THREADS / X, COLUMNS = X * VEC, PITCH = COLUMNS + SECTOR, SHIFTED = PITCH + SECTOR;
    static_assert(Y % SECTOR == 0, "a thread's pieces must begin equally far inside a sector");
    extern __shared__ __align__(128) unsigned char tiles_memory[];
    // A tile's phases: its sums are in the block's memory, and added up; the cluster's are here; its factors are.
    __shared__ uint64_t summed, added, exchanged[2], factored[2];
    __shared__ int all_usual[2][ADDERS / 32]; // by warp of adders: no factor needs its extra
    __shared__ float order[ORDER];           // of this cluster's tiles, as bits: its n-th is at n % ORDER
    unsigned const blocks = cluster_size(), cluster = blockIdx.x / blocks, clusters = gridDim.x / blocks;
    TilesMemory const memory(X, VEC, SECTOR, 1);
    T* const stages = reinterpret_cast<T*>(tiles_memory); // [STAGES][R][THREADS] vectors
    float* const sums = reinterpret_cast<float*>(stages + STAGES * R * THREADS * VEC);
    float* const factors = sums + memory.sums;
    float* const extras = factors + memory.factors;
    float* const partials = extras + memory.extras;
    int const thread = threadIdx.x, first_channel = int(cluster_rank()) * (Y * R);

    struct Tile
    {
        int64_t start; // of a channel's piece
        int begin;     // its first column, -1: no tile

        __device__ int lo() const { return int(start % SECTOR); } // what the sector holds before it
    };
    auto const item_of = [&](unsigned count) { return __float_as_uint(order[count % ORDER]); };
    auto const tile_of = [&](unsigned item, int channel) {
        unsigned const outer = g.over_tiles(item);
        int const begin = int(item - outer * g.tiles) * g.width;
        return Tile{(int64_t(outer) * g.channels + channel) * g.inner + begin, begin};
    };
    auto const needed = [&](Tile const& t) { return min(g.width + g.extra, int(g.inner) - t.begin); };
    if (thread == 0)
    {
        barrier_init(&summed, THREADS);
        barrier_init(&added, ADDERS);
        for (int i = 0; i < 2; ++i)
        {
            barrier_init(exchanged + i);
            barrier_init(factored + i, ADDERS);
        }
        for (int i = 0; i < STAGES; ++i)
            order[i] = __uint_as_float(cluster + i * clusters);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    if (thread >= THREADS)
    {
        // An adder has EACH columns, or one of PARTS shares of a column's rows.
        constexpr int EACH = COLUMNS > ADDERS ? COLUMNS / ADDERS : 1, PARTS = COLUMNS < ADDERS ? ADDERS / COLUMNS : 1;
        constexpr int ROWS = Y / PARTS, SENT = COLUMNS * PARTS;
        int const adder = thread - THREADS, column = adder % COLUMNS, first_row = adder / COLUMNS * ROWS;
        bool const draws = cluster_rank() == 0 && adder == 0;
        unsigned drawn = cluster;
        if (draws && tickets)
            drawn = atomicAdd(tickets, 1u);
        cluster_arrive(); // the others' barriers are ready
        cluster_wait();
        for (unsigned count = 0; item_of(count) < g.items; ++count)
        {
            unsigned const turn = count % 2, inner = unsigned(g.inner);
            Tile const tile = tile_of(item_of(count), first_channel);
            barrier_wait(&summed, count % 2);
            float total[EACH] = {};
            unsigned shift = unsigned(tile.start) + first_row * inner;
#pragma unroll
            for (int i = 0; i < ROWS; ++i, shift += inner) // a row has the columns shifted by its place in a sector
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                    total[j] += sums[(first_row + i) * PITCH + column + j * ADDERS + int(shift % SECTOR)];
            barrier_arrive(&added);
            if (adder == 0 && blocks > 1)
                bulk_announce((blocks * SENT + 1) * unsigned(sizeof(float)), exchanged + turn);
            // What is sent for the tile after the next is sent after all have read this one's.
            float* const partial = partials + turn * blocks * SENT;
            auto const send = [&](float* to, float f) { // st.async is for clusters of two or more
                if (blocks == 1)
                    *to = f;
                else
                    for (unsigned rank = 0; rank < blocks; ++rank)
                        send_remote(to, f, exchanged + turn, rank);
            };
#pragma unroll
            for (int j = 0; j < EACH; ++j)
                send(partial + cluster_rank() * SENT + adder + j * ADDERS, total[j]);
            if (draws)
            {
                send(order + (count + STAGES) % ORDER, __uint_as_float(STAGES * clusters + drawn));
                if (tickets)
                    drawn = atomicAdd(tickets, 1u); // looked at when the next sums are sent
                else
                    drawn += clusters;
            }
            if (blocks == 1)
                asm volatile("bar.sync 1, %0;" ::"n"(ADDERS) : "memory");
            else
                barrier_wait(exchanged + turn, count / 2 % 2);
            bool usual = true;
            if (adder < COLUMNS)
#pragma unroll
                for (int j = 0; j < EACH; ++j)
                {
                    int const at = column + j * ADDERS;
                    float all = 0.f;
#pragma unroll
                    for (unsigned i = 0; i < kMostBlocksInCluster * PARTS; ++i)
                        if (i < blocks * PARTS)
                            all += partial[i * COLUMNS + at];
                    Scale const scale(at < needed(tile) ? divisor_of(all, norm) : 1.f);
                    usual = usual && scale.extra == 1.f;
                    extras[turn * COLUMNS + at] = scale.extra;
#pragma unroll
                    for (int i = 0; i < 2; ++i)
                        factors[(turn * 2 + i) * SHIFTED + SECTOR + at + i] = scale.factor;
                }
            usual = __all_sync(kWholeWarp, usual);
            if (adder % 32 == 0)
                all_usual[turn][adder / 32] = usual;
            barrier_arrive(factored + turn);
        }
        if (draws && tickets && drawn == g.items + clusters - 1)
            *tickets = 0; // every tile has drawn once, and every cluster once more
        return;
    }

    int const from_lo = thread % X * VEC, channel = first_channel + thread / X;
    int const packs = min(max(ceil_div(g.channels - channel, Y), 0), R); // channels that this thread has
    int64_t const step = Y * g.inner;
    T* const places = stages + thread * VEC; // [STAGES][R], THREADS vectors apart
    auto const place = [&](int slot, int r) { return places + (slot * R + r) * THREADS * VEC; };
    for (int i = 0; i < STAGES; ++i)
        for (int r = packs; r < R; ++r)
            Vector<T>::zeros().store(place(i, r), false); // no copy comes there
    auto const fetch = [&](unsigned item, int slot) {
        Tile tile{0, -1};
        if (item < g.items)
        {
            tile = tile_of(item, channel);
            int const at = from_lo - tile.lo(), wanted = at < needed(tile) ? packs : 0;
            T const* const from = x + tile.start + at;
            if (item < g.within || from + (R - 1) * step + VEC <= x + g.elements)
            {
                unsigned const to = shared_address(place(slot, 0));
                T const* p = from;
#pragma unroll
                for (int r = 0; r < R; ++r, p += step)
                    if (r < wanted)
                        copy_async(to + r * (THREADS * kVectorBytes), p);
            }
            else
                for (int r = 0; r < wanted; ++r)
                {
                    T const* const p = from + r * step;
                    if (p + VEC <= x + g.elements)
                        copy_async(shared_address(place(slot, r)), p);
                    else // the tensor's last vector, and not full
                        for (int k = 0; p + k < x + g.elements; ++k)
                            place(slot, r)[k] = p[k];
                }
        }
        __pipeline_commit();
        return tile;
    };
    Tile before{0, -1}, here = fetch(cluster, 0), next = fetch(cluster + clusters, 1);
    float weights[R];
#pragma unroll
    for (int r = 0; r < R; ++r)
        weights[r] = weight.data && r < packs ? weight.at(channel + r * Y) : 1.f;
    cluster_arrive();
    cluster_wait();

    int slot = 0;
    for (unsigned count = 0; here.begin >= 0 || before.begin >= 0; ++count)
    {
        unsigned const turn_before = (count + 1) % 2;
        int const slot_before = slot == 0 ? STAGES - 1 : slot - 1;
        if (here.begin >= 0)
        {
            __pipeline_wait_prior(1);
            float sum[VEC] = {};
#pragma unroll
            for (int r = 0; r < R; ++r) // beyond what is needed they are anything, and nobody's
            {
                auto const v = Vector<T>::of_shared(place(slot, r));
#pragma unroll
                for (int k = 0; k < VEC; ++k)
                    sum[k] = fmaf(v[k], v[k], sum[k]);
            }
            if (count > 0)
                barrier_wait(&added, (count - 1) % 2);
            auto* const to = reinterpret_cast<float4*>(sums + thread / X * PITCH + from_lo);
#pragma unroll
            for (int k = 0; k < VEC; k += 4)
                to[k / 4] = make_float4(sum[k], sum[k + 1], sum[k + 2], sum[k + 3]);
            barrier_arrive(&summed);
        }
        bool usual = true;
        if (before.begin >= 0)
        {
            barrier_wait(factored + turn_before, (count - 1) / 2 % 2);
#pragma unroll
            for (int i = 0; i < ADDERS / 32; ++i)
                usual = usual && all_usual[turn_before][i];
        }

        // What the tile owns of the piece.
        int const lo = before.lo(), at = from_lo - lo;
        int const columns = int(g.inner) - before.begin, low = before.begin == 0 ? 0 : (SECTOR - lo) % SECTOR;
        int const sectors = (lo + g.width + SECTOR - 1) / SECTOR * SECTOR - lo;
        int const high = columns <= g.width ? columns : min(sectors, columns);
        int const out_packs = before.begin >= 0 && at + VEC > low && at < high ? packs : 0;
        Vector<T> v[R];
#pragma unroll
        for (int r = 0; r < R; ++r)
            v[r] = Vector<T>::of_shared(place(slot_before, r));
        Tile const later = fetch(item_of(count + 2), slot_before);
        float factor[VEC];
        auto const* const f = reinterpret_cast<float2 const*>(
            factors + (turn_before * 2 + lo % 2) * SHIFTED + SECTOR + from_lo - lo / 2 * 2);
#pragma unroll
        for (int k = 0; k < VEC; k += 2)
        {
            float2 const two = f[k / 2];
            factor[k] = two.x, factor[k + 1] = two.y;
        }
        T* p = y + before.start + at;
        auto const scaled = [&](int r, float (&out)[VEC]) {
#pragma unroll
            for (int k = 0; k < VEC; ++k)
                out[k] = v[r][k] * factor[k] * weights[r];
        };
        if (usual && at >= low && at + VEC <= high)
#pragma unroll
            for (int r = 0; r < R; ++r, p += step)
            {
                float out[VEC];
                scaled(r, out);
                if (r < out_packs)
                    store_whole(p, Vector<T>::of(out));
            }
        else if (out_packs > 0)
        {
            unsigned const all = (1u << VEC) - 1, from = max(low - at, 0), to = min(high - at, VEC);
            unsigned const inside = all >> (VEC - to) & all << from;
#pragma unroll
            for (int r = 0; r < R; ++r, p += step)
            {
                if (r >= out_packs)
                    break;
                float out[VEC];
                scaled(r, out);
                if (!usual)
#pragma unroll
                    for (int k = 0; k < VEC; ++k)
                        out[k] *= extras[turn_before * COLUMNS + max(at + k, 0)];
                store_inside(p, Vector<T>::of(out), inside);
            }
        }
        before = here, here = next, next = later;
        slot = slot + 1 == STAGES ? 0 : slot + 1;
    }
#endif
}

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
                asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory"); // the stores before have read
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

// How [outer, channels, inner] is cut where the channels are few: into items of some neighbouring images.
struct StagedImages
{
    int64_t elements;
    unsigned items; // of so many images, the last of what is left
    int images, channels, inner, stages;
    FastDiv<uint32_t> over_inner;
};

constexpr int kMostStages = 4, kStagedMover = 32, kMostStagedImageThreads = 640 + kStagedMover;
constexpr int kStagedAtOnce = 8; // channels

// Few channels: a block has some items in shared memory, which come and go by bulk copies as they lie in memory, and each
// of its threads has whole columns of the item at work, so that nobody waits for another's sums. The last warp moves
// the items: one that is done leaves, and another comes to its place. Items are drawn from *tickets, which is 0 before
// and after; without tickets the blocks take them in turn.
template <class T>
__global__ void __launch_bounds__(kMostStagedImageThreads, SURGEON_DEVICE_HAS_ST_ASYNC ? 2 : 1)
    l2norm_few_channels_kernel(T const* __restrict__ x, Scalars weight, T* __restrict__ y, StagedImages g, Norm norm,
        unsigned* tickets)
{
#if SURGEON_DEVICE_HAS_ST_ASYNC
    constexpr int VEC = kVectorBytes / sizeof(T), AT_ONCE = kStagedAtOnce;
    extern __shared__ __align__(128) unsigned char staged_memory[];
    __shared__ uint64_t full[kMostStages], done[kMostStages];
    __shared__ unsigned item_of[kMostStages];
    int const workers = int(blockDim.x) - kStagedMover, thread = threadIdx.x;
    int const image_elements = g.channels * g.inner, room = g.images * image_elements; // whole vectors
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
    auto const elements_of = [&](unsigned item) {
        return int(min(int64_t(room), g.elements - int64_t(item) * room));
    };

    int stage = 0;
    unsigned phase = 0;
    auto const advance = [&] {
        if (++stage < g.stages)
            return;
        stage = 0;
        phase ^= 1;
    };
    if (thread >= workers)
    {
        int const lane = thread - workers;
        uint64_t const policy = cache_policy(false); // evict-first costs 0.01 of a copy
        auto const fetch = [&](unsigned item) {
            int const elements = item < g.items ? elements_of(item) : 0, whole = elements / VEC * VEC;
            T const* const from = x + int64_t(item) * room;
            T* const to = stages + stage * room;
            if (whole + lane < elements)
                to[whole + lane] = from[whole + lane];
            if (lane > 0)
                return barrier_arrive(full + stage);
            item_of[stage] = item;
            bulk_announce(unsigned(whole * sizeof(T)), full + stage);
            bulk_load(to, from, unsigned(whole * sizeof(T)), full + stage, policy);
        };
#pragma unroll 1
        for (; stage < g.stages; ++stage)
            fetch(blockIdx.x + stage * gridDim.x);
        for (stage = 0;; advance())
        {
            __syncwarp();
            unsigned const item = item_of[stage];
            if (item >= g.items)
                break;
            unsigned drawn = 0;
            if (lane == 0 && tickets)
                drawn = atomicAdd(tickets, 1u);
            barrier_wait(done + stage, phase);
            int const elements = elements_of(item), whole = elements / VEC * VEC;
            T const* const from = stages + stage * room;
            T* const to = y + int64_t(item) * room;
            if (whole + lane < elements)
                to[whole + lane] = from[whole + lane];
            if (lane == 0)
            {
                bulk_store(to, from, unsigned(whole * sizeof(T)), policy);
                bulk_stores_have_read();
                if (tickets && drawn == g.items - 1)
                    *tickets = 0; // every item draws once
            }
            drawn = __shfl_sync(kWholeWarp, drawn, 0);
            __syncwarp(); // all have read what it was
            fetch(tickets ? g.stages * gridDim.x + drawn : item + g.stages * gridDim.x);
        }
        return;
    }
    for (;; advance())
    {
        barrier_wait(full + stage, phase);
        unsigned const item = item_of[stage];
        if (item >= g.items)
            return;
        int const columns = elements_of(item) / g.channels;
        for (int column = thread; column < columns; column += workers)
        {
            int const image = int(g.over_inner(unsigned(column)));
            T* const first = stages + stage * room + image * (image_elements - g.inner) + column;
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
            Scale const scale(divisor_of((sum[0] + sum[1]) + (sum[2] + sum[3]), norm));
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
            if (scale.extra == 1.f)
                write([&](float v) { return v * scale.factor; });
            else
                write([&](float v) { return scale(v); });
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        barrier_arrive(done + stage);
    }
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
    if (weight.data)
        for (int e = threadIdx.x; e < length; e += blockDim.x)
            weights[weight_place(e)] = weight.at(e);
    block.bring(x);
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

// Rows so short that a thread takes several at once: a period, the fewest that fill whole vectors.
constexpr int kMostPeriodBytes = 32, kPeriodThreads = 128;

template <class T, int LENGTH>
struct Period
{
    static constexpr int VEC = kVectorBytes / sizeof(T);
    static constexpr int COMMON = std::gcd(LENGTH, VEC);
    static constexpr int VECTORS = LENGTH / COMMON, ROWS = VEC / COMMON;
    static constexpr int A_THREAD = ceil_div(4, VECTORS); // periods, of four vectors or more
    static constexpr int ROWS_A_BLOCK = kPeriodThreads * A_THREAD * ROWS;
};

template <class T, int LENGTH>
__global__ void __launch_bounds__(kPeriodThreads, 6)
    l2norm_periods_kernel(
        T const* __restrict__ x, T* __restrict__ y, int64_t rows, Scalars weight, Norm norm, bool stream)
{
    using P = Period<T, LENGTH>;
    constexpr int VEC = P::VEC;
    extern __shared__ __align__(128) unsigned char staged[];
    __shared__ float weights[LENGTH];
    StagedSpan<T> const block(staged, rows, LENGTH, P::ROWS_A_BLOCK);
    if (threadIdx.x < LENGTH)
        weights[threadIdx.x] = weight.data ? weight.at(threadIdx.x) : 1.f;
    block.bring(x);
#pragma unroll 1
    for (int i = threadIdx.x; i * P::VECTORS * VEC < block.elements; i += kPeriodThreads)
    {
        T* const stage = block.stage + i * P::VECTORS * VEC;
        float sum[P::ROWS] = {};
#pragma unroll
        for (int j = 0; j < P::VECTORS; ++j)
        {
            auto const v = Vector<T>::of_shared(stage + j * VEC);
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                float& s = sum[(j * VEC + k) / LENGTH];
                s = fmaf(v[k], v[k], s);
            }
        }
        float factor[P::ROWS], extra[P::ROWS];
#pragma unroll
        for (int r = 0; r < P::ROWS; ++r)
        {
            Scale const scale(divisor_of(sum[r], norm));
            factor[r] = scale.factor;
            extra[r] = scale.extra;
        }
        asm volatile("" ::: "memory"); // the values again, rather than kept as floats
#pragma unroll
        for (int j = 0; j < P::VECTORS; ++j)
        {
            auto const v = Vector<T>::of_shared(stage + j * VEC);
            float out[VEC];
#pragma unroll
            for (int k = 0; k < VEC; ++k)
            {
                int const r = (j * VEC + k) / LENGTH;
                out[k] = v[k] * factor[r] * extra[r] * weights[(j * VEC + k) % LENGTH];
            }
            Vector<T>::of(out).store(stage + j * VEC, false);
        }
    }
    block.take_back(y, stream);
}

} // namespace surgeon
