// L2Norm along an axis by tiles of neighbouring columns, over clusters.
#pragma once

#include "l2_norm.cuh"

namespace surgeon
{

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
// One vector into shared memory. Of floats also its whole line into the L2 cache, where a neighbour's tile looks for the
// rest: 0.005 of a copy; of halves that costs 0.01 to 0.03. Counted by __pipeline_commit().
template <class T>
__device__ inline void copy_async(unsigned to, T const* from)
{
    if constexpr (sizeof(T) == 4)
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
#endif

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

} // namespace surgeon
